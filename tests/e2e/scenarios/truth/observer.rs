//! Runs the commands of a workstation about once a second while a story is played, and compares each answer with the facts.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::claims::Claims;
use super::facts::Facts;
use super::judge::{Answer, Server};
use crate::harness::console::Console;
use crate::harness::hook_release::HookRelease;
use crate::harness::scrape::scrape;
use crate::harness::stack::Stack;
use crate::harness::wait::until;

const TICK: Duration = Duration::from_secs(1);
/// Rounds after the end of the story.
const AFTERWARDS: usize = 10;
/// A command has a minute to read the cluster, and as long again to start and to print on a busy machine.
const COMMAND: Duration = Duration::from_mins(2);
/// Facts that take longer to read are unknown: the API server is going away.
const READ: Duration = Duration::from_secs(20);
/// Rounds are waited for at most this long.
const ROUNDS: Duration = Duration::from_mins(3);
/// Claims that every story gives occasion for.
const ALWAYS: [&str; 9] = [
    "exit-code",
    "done",
    "cordoned",
    "driver-now",
    "reason",
    "rows",
    "phase",
    "report-run",
    "unattended-cordons",
];

/// The observer of one story.
pub(super) struct Observer<'s> {
    stack: &'s Stack,
    hook: HookRelease<'s>,
    nodes: Vec<String>,
    port: u16,
    /// A workstation.
    pub(super) console: Console,
    server: Cell<(Server, usize)>,
    rounds: Cell<usize>,
    /// Where answers are kept that are not true.
    folder: PathBuf,
}

/// The server and the facts at one moment.
struct Moment {
    server: (Server, usize),
    facts: Option<Facts>,
    metrics: Option<String>,
}

impl<'s> Observer<'s> {
    /// Makes one of a fleet of these nodes. `port`: where the hook serves its metrics.
    pub(super) fn new(
        stack: &'s Stack,
        hook: HookRelease<'s>,
        nodes: Vec<String>,
        port: u16,
    ) -> Result<Self> {
        let folder = stack.helm.directory().join("lies");
        std::fs::create_dir_all(&folder)?;
        let console = Console::new(stack)?;
        let (server, rounds) = (Cell::new((Server::Up, 0)), Cell::new(0));
        Ok(Self { stack, hook, nodes, port, console, server, rounds, folder })
    }

    /// Observes until the story is over, and for some rounds more. Every lie is an error.
    pub(super) async fn observe(&self, story: impl Future<Output = Result<()>>) -> Result<()> {
        let over = Cell::new(None);
        let story = async {
            let played = story.await;
            over.set(Some(played.is_ok()));
            played
        };
        let (played, claims) = tokio::join!(story, self.watch(&over));
        let claims = claims?;
        eprintln!("{} rounds; claims: {}", self.rounds.get(), claims.judge.summary());
        let lies = claims.judge.lies();
        ensure!(lies.is_empty(), "{}\n{played:?}", lies.join("\n"));
        played?;
        for claim in ALWAYS {
            ensure!(claims.judge.judged(claim) > 0, "there was no occasion to judge {claim}");
        }
        Ok(())
    }

    /// Waits until the commands have been run so many times more.
    pub(super) async fn rounds(&self, more: usize) -> Result<()> {
        let end = self.rounds.get() + more;
        until(&format!("{more} rounds of commands"), ROUNDS, async || {
            Ok((self.rounds.get() >= end).then_some(()))
        })
        .await
    }

    /// Stops the API server, or starts it again.
    pub(super) async fn switch_server(&self, on: bool) -> Result<()> {
        let set = |server| self.server.set((server, self.server.get().1 + 1));
        set(Server::Changing);
        if on {
            self.stack.control_plane.start_api_server().await?;
        } else {
            self.stack.control_plane.stop_api_server().await?;
        }
        set(if on { Server::Up } else { Server::Down });
        Ok(())
    }

    async fn watch(&self, over: &Cell<Option<bool>>) -> Result<Claims> {
        let (mut claims, begin) = (Claims::default(), Instant::now());
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut left = AFTERWARDS;
        while left > 0 {
            ticks.tick().await;
            match over.get() {
                Some(true) => left -= 1,
                Some(false) => break,
                None => {}
            }
            self.round(&mut claims, begin).await?;
            self.rounds.set(self.rounds.get() + 1);
        }
        Ok(claims)
    }

    /// Runs each command once, `why` of one node after the other.
    async fn round(&self, claims: &mut Claims, begin: Instant) -> Result<()> {
        let node = &self.nodes[self.rounds.get() % self.nodes.len()];
        let mut before = self.moment().await;
        for command in ["status", "doctor", "report", &format!("why {node}")] {
            let line = format!("gpu-rollout {command} -o json");
            let output = timeout(COMMAND, self.console.tries(&line)).await.ok().transpose()?;
            let after = self.moment().await;
            let (code, printed) =
                output.map_or((None, Vec::new()), |output| (output.status.code(), output.stdout));
            let answer = Answer {
                line,
                code,
                document: serde_json::from_slice(&printed).unwrap_or_default(),
                server: server(&before, &after),
                facts: before.facts.take().zip(after.facts.clone()),
                metrics: before.metrics.take().zip(after.metrics.clone()),
            };
            let lies = claims.check(&answer, begin.elapsed());
            if !lies.is_empty() {
                self.keep(&answer, begin.elapsed(), &lies)?;
            }
            before = after;
        }
        Ok(())
    }

    /// The facts, as far as the API server is there.
    async fn moment(&self) -> Moment {
        let server = self.server.get();
        let is_up = server.0 == Server::Up;
        let read = timeout(READ, Facts::read(self.stack, &self.hook));
        let facts = if is_up { read.await.ok().and_then(Result::ok) } else { None };
        Moment { server, facts, metrics: scrape(self.port).await }
    }

    /// Writes an answer with its lies next to the logs of the story.
    fn keep(&self, answer: &Answer, at: Duration, lies: &[String]) -> Result<()> {
        let command = answer.line.split(' ').nth(1).unwrap_or_default();
        let path = self.folder.join(format!("{:06.1}-{command}.txt", at.as_secs_f64()));
        let document = serde_json::to_string_pretty(&answer.document)?;
        let text = format!("{}\n\n{:#?}\n\n{document}\n", lies.join("\n"), answer.facts);
        std::fs::write(path, text)?;
        Ok(())
    }
}

/// The server from one moment to the other; one that was switched in between is changing.
fn server(before: &Moment, after: &Moment) -> Server {
    if before.server == after.server { after.server.0 } else { Server::Changing }
}
