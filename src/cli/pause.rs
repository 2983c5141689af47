//! `gpu-rollout pause` and `resume`.

use std::collections::BTreeMap;

use clap::Args;
use jiff::Timestamp;

use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use super::user_request::{ReasonOption, write_request};
use crate::printer::Printer;
use contract::count::with_noun;
use contract::exit::ExitCode;
use contract::pause::{ANNOTATION, Pause};
use contract::selector::Selector;
use contract::settings::Mode;
use contract::user_request::RequestCommand;
use observed::pause::{ObservedPause, annotated_nodes};
use ops::node_write::{self, NodeWriteFailure};
use ops::observe::RolloutSnapshot;
use ops::pause::{
    PauseReach, Resumption, key, pause, pause_texts, pauses, reach, resume, texts_in_force,
};
use ops::session::FollowedRollouts;
use ops::user_request::new_request;
use planner::pods::listed;

use end::EndOptions;
use halt::EndedHalts;

mod end;
mod halt;

/// Arguments of `gpu-rollout pause`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout pause --reason INC-4711
  gpu-rollout pause -l nvidia.com/gpu.product=NVIDIA-H100 --for 12h --reason 'a benchmark runs'
  gpu-rollout pause --until '2027-01-04T06:00[Europe/Berlin]' --reason 'year-end freeze'")]
pub struct PauseArguments {
    /// Pause only nodes that match this label selector, such as `pool=a,zone in (x,y)` [default:
    /// all nodes]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    #[command(flatten)]
    end: EndOptions,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Arguments of `gpu-rollout resume`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout resume
  gpu-rollout resume -l nvidia.com/gpu.product=NVIDIA-H100
  gpu-rollout resume --by ada@example.com
  gpu-rollout resume --all --yes
  gpu-rollout resume --accept gpu-3 gpu-7 --reason 'INC-4711: a bad test'")]
pub struct ResumeArguments {
    /// Remove every pause with this selector. If you give none of `--selector`, `--by`, `--all`
    /// and `--accept`, `resume` removes the pause if there is only one; if there are several, it
    /// lists them and changes nothing. A pause of all nodes has no selector: to remove it while
    /// there are other pauses, use `--by` or `--all`
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    selector: Option<String>,
    /// Remove every pause of this user, named as in the list of pauses; with `--selector`, only those
    /// with the selector
    #[arg(long, value_name = "USER", conflicts_with = "all")]
    by: Option<String>,
    /// Remove every pause
    #[arg(long)]
    all: bool,
    /// Take these failed nodes as proven, and end the halt of their rollout. The next run of the hook
    /// uncordons them, and they no longer count as failed. Only for nodes whose new driver runs, and
    /// whose checks failed. Pauses stay, unless another option names them
    #[arg(long, value_name = "NODE", num_args = 1..)]
    accept: Vec<String>,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl PauseArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { selector, end, reason: ReasonOption { reason }, consent, cluster } = self;
        let parsed = match selector.as_deref().map(str::parse::<Selector>).transpose() {
            Ok(parsed) => parsed,
            Err(error) => {
                printer.error(
                    &format!("--selector: {error}"),
                    Some("use kubectl's syntax, such as `pool=a,zone in (x,y)`"),
                );
                return ExitCode::Usage;
            }
        };
        let end = match end.given() {
            Ok(end) => end,
            Err(refusal) => return refusal.print(printer),
        };
        cluster::run(&cluster, printer, async |session, printer| {
            cluster::print_notes(&session, printer);
            let until = match end.of_pause(session.now()) {
                Ok(until) => until,
                Err(refusal) => return Ok(refusal.print(printer)),
            };
            let texts = texts_in_force(pause_texts(session.client()).await?, session.now());
            let FollowedRollouts { mut observers, snapshots } =
                session.follow_drivers(|_| true).await?;
            print_pauses(&pauses(&texts), &annotated_texts(&snapshots), printer);
            for snapshot in &snapshots {
                let reach = reach(snapshot, parsed.as_ref());
                printer.note(&format!("{}: {}", snapshot.target.title(), describe_reach(&reach)));
                if let Some(text) = until.and_then(|until| describe_end(snapshot, &reach, until)) {
                    printer.note(&format!("{}: {text}", snapshot.target.title()));
                }
            }
            if let Some(until) = until {
                printer.note(&format!("the pause ends by itself at {until:.0}"));
            }
            if let Err(code) = consent.given(printer) {
                return Ok(code);
            }
            let request = RequestCommand::Pause;
            let request = new_request(&session, request, selector.clone(), reason.clone()).await;
            let new = Pause { selector, by: request.by.clone(), reason, at: request.at, until };
            let hooks = snapshots.iter().map(|snapshot| &snapshot.settings);
            write_request(&session, hooks, &request, printer).await;
            let failures =
                pause(session.client(), &mut observers, &new, parsed.as_ref(), || session.now())
                    .await?;
            Ok(print_end("paused", &failures, printer))
        })
    }
}

impl ResumeArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { selector, by, all: every, accept, reason, consent, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            cluster::print_notes(&session, printer);
            let texts = texts_in_force(pause_texts(session.client()).await?, session.now());
            let mut followed = session.follow_drivers(|_| true).await?;
            let annotated = annotated_texts(&followed.snapshots);
            print_pauses(&pauses(&texts), &annotated, printer);
            let choice = (selector.as_deref(), by.as_deref());
            let resumes_pauses = accept.is_empty() || every || choice != (None, None);
            let chosen = if resumes_pauses {
                match ChosenPauses::new(&texts, &annotated, choice, every) {
                    Ok(chosen) => chosen,
                    Err(refusal) => return Ok(refusal.print(printer)),
                }
            } else {
                ChosenPauses::none()
            };
            let halts = match EndedHalts::new(&followed.snapshots, &accept) {
                Ok(halts) => halts,
                Err(refusal) => return Ok(refusal.print(printer)),
            };
            halts.announce(printer);
            let is_resumed = !(chosen.is_empty() && halts.is_empty());
            let mut is_recorded = true;
            if is_resumed {
                if let Err(code) = consent.given(printer) {
                    return Ok(code);
                }
                let ReasonOption { reason } = reason;
                let request = new_request(&session, RequestCommand::Resume, selector, reason).await;
                for (hook, request) in halts.requested(&request) {
                    is_recorded &= write_request(&session, [hook], &request, printer).await;
                }
            } else {
                printer.note("nothing is paused, and no rollout has halted");
            }
            // Also where nothing is paused: a pause that was removed in another way may have left
            // holds.
            let Resumption { failures, replaced } = resume(
                session.client(),
                &mut followed.observers,
                (&chosen.texts, chosen.annotations),
                || session.now(),
            )
            .await?;
            for pause in &replaced {
                printer.note(&format!(
                    "{}: stays, because it is newer than the list of pauses above",
                    describe_pause(pause)
                ));
            }
            if !halts.is_empty() && !is_recorded {
                printer.error(
                    "the halt continues: the hook reads the request in the run record, where it is missing",
                    Some("get the right to `get` and `patch` the ConfigMap of the run record, and run the command again"),
                );
                return Ok(ExitCode::Rights);
            }
            if !halts.is_empty() {
                printer.note("deploy the bundle again: the rollout continues after the halt");
            }
            Ok(print_end(
                if is_resumed { "resumed" } else { "nothing left to resume" },
                &failures,
                printer,
            ))
        })
    }
}

/// The pauses that `resume` removes.
struct ChosenPauses {
    /// Their texts by data key, as they were listed.
    texts: BTreeMap<String, String>,
    /// Whether annotations of nodes are removed, too.
    annotations: bool,
}

/// Why `resume` does not know which pauses to remove.
enum ChoiceRefusal {
    /// No pause has the selector and the user.
    Unknown,
    /// There are this many, and none was chosen.
    Several(usize),
}

impl ChosenPauses {
    /// Chooses pauses by selector and user. `texts`: the texts of all pauses by data key.
    fn new(
        texts: &BTreeMap<String, String>,
        annotated: &[String],
        (selector, by): (Option<&str>, Option<&str>),
        every: bool,
    ) -> Result<Self, ChoiceRefusal> {
        let is_chosen = |pause: &ObservedPause| {
            selector.is_none_or(|selector| has_selector(pause, selector))
                && by.is_none_or(|by| pause.by == by)
        };
        let texts: BTreeMap<String, String> = texts
            .iter()
            .filter(|(key, text)| is_chosen(&ObservedPause::read(key, text)))
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect();
        let is_named = selector.is_some() || by.is_some();
        let annotations = !is_named && !annotated.is_empty();
        if texts.is_empty() && is_named {
            return Err(ChoiceRefusal::Unknown);
        }
        let count = texts.len() + usize::from(annotations);
        if count > 1 && !every && !is_named {
            return Err(ChoiceRefusal::Several(count));
        }
        Ok(Self { texts, annotations })
    }

    /// Chooses no pause.
    fn none() -> Self {
        Self { texts: BTreeMap::new(), annotations: false }
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty() && !self.annotations
    }
}

impl ChoiceRefusal {
    fn print(self, printer: &mut Printer) -> ExitCode {
        match self {
            Self::Unknown => {
                printer.error(
                    "no pause matches --selector and --by",
                    Some("write selector and user as in the list of pauses above"),
                );
                ExitCode::Input
            }
            Self::Several(count) => {
                printer.error(
                    &format!("there are {count} pauses"),
                    Some("choose with --selector or --by (a pause of all nodes has no selector), or remove all with --all"),
                );
                ExitCode::Usage
            }
        }
    }
}

/// Returns whether a pause has this selector. An unreadable pause has none, but still its data key.
fn has_selector(pause: &ObservedPause, selector: &str) -> bool {
    let same = selector.parse::<Selector>().ok();
    pause.key == key(Some(selector)) || same.is_some_and(|same| pause.selector == Some(same))
}

/// Returns the names of the nodes that are paused by their annotation, with the end of their pause.
/// Every rollout observes all nodes.
fn annotated_texts(snapshots: &[RolloutSnapshot]) -> Vec<String> {
    let first = snapshots.first().into_iter();
    let annotated = first.flat_map(|snapshot| annotated_nodes(&snapshot.observed, snapshot.now));
    annotated.map(|(node, pause)| format!("{}{}", node.name, until_text(pause.until))).collect()
}

/// Returns ` until TIME`, or an empty string for a pause without an end.
fn until_text(until: Option<Timestamp>) -> String {
    until.map(|until| format!(" until {until:.0}")).unwrap_or_default()
}

/// Prints the pauses, and the nodes that are paused by their annotation.
pub(super) fn print_pauses(known: &[ObservedPause], annotated: &[String], printer: &mut Printer) {
    for pause in known {
        printer.note(&describe_pause(pause));
    }
    if !annotated.is_empty() {
        printer.note(&format!("paused by annotation {ANNOTATION}: {}", listed(annotated)));
    }
}

fn describe_reach(reach: &PauseReach) -> String {
    let held = match reach.held.len() {
        0 => String::new(),
        count => {
            format!(
                "; {} will get the skip label, which keeps NVIDIA's controller away",
                with_noun(count, "node")
            )
        }
    };
    let in_progress = if reach.in_progress.is_empty() {
        String::new()
    } else {
        format!("; in progress on {}: {}", listed(&reach.in_progress), reach.in_progress_then)
    };
    format!("no more upgrades start on {}{held}{in_progress}", with_noun(reach.nodes, "node"))
}

/// Says what a user must do for a rollout when the pause has ended, if it does not continue by
/// itself.
fn describe_end(
    snapshot: &RolloutSnapshot,
    reach: &PauseReach,
    until: Timestamp,
) -> Option<String> {
    let has_job = snapshot.phase().has_job();
    let deadline = snapshot.decision.memory.deadline;
    if has_job && deadline <= until {
        return Some(format!(
            "the run of the hook must end at {deadline:.0}, before the pause: deploy the bundle again after the pause"
        ));
    }
    let is_released = has_job && snapshot.settings.mode != Mode::Observe;
    (!reach.held.is_empty() && !is_released).then(|| {
        "no hook Job removes the skip label when the pause ends: run gpu-rollout resume then"
            .to_owned()
    })
}

fn describe_pause(pause: &ObservedPause) -> String {
    let nodes = pause
        .selector
        .as_ref()
        .map_or_else(|| "all nodes".to_owned(), |selector| format!("nodes with {selector}"));
    let why = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let at = pause.at.map(|at| format!(" at {at:.0}")).unwrap_or_default();
    let until = until_text(pause.until);
    format!("paused by {}{at}{until}{why}: {nodes}", pause.by)
}

fn print_end(word: &str, failures: &[NodeWriteFailure], printer: &mut Printer) -> ExitCode {
    if failures.is_empty() {
        printer.data(&format!("{word}\n"));
    } else {
        let nodes = listed(&node_write::texts(failures));
        printer.error(
            &format!("{word}, but cannot change some nodes: {nodes}"),
            node_write::hint(failures),
        );
    }
    node_write::exit_code(failures)
}
