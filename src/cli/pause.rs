//! `gpu-rollout pause` and `resume`.

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use crate::printer::Printer;
use contract::exit::ExitCode;
use contract::selector::Selector;
use observed::pause::ObservedPause;
use ops::node_write::{self, NodeWriteFailure};
use ops::pause::{PauseReach, key, new_pause, pause, pauses, reach, resume};
use ops::session::FollowedRollouts;
use planner::pods::listed;

/// Arguments of `gpu-rollout pause`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout pause --reason 'training run until Friday'
  gpu-rollout pause -l nvidia.com/gpu.product=NVIDIA-H100 --reason INC-4711")]
pub struct PauseArguments {
    /// Pause only nodes that match this label selector, such as `pool=a,zone in (x,y)` [default:
    /// all nodes]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Reason for the pause, which `status` shows [default: none]
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
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
  gpu-rollout resume --all --yes")]
pub struct ResumeArguments {
    /// Remove the pause with this selector, written exactly as for `pause` [default: the only
    /// pause]
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    selector: Option<String>,
    /// Remove every pause
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl PauseArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { selector, reason, consent, cluster } = self;
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
        cluster::run(&cluster, printer, async |session, printer| {
            let FollowedRollouts { mut observers, snapshots } =
                session.follow_drivers(|_| true).await?;
            for snapshot in &snapshots {
                printer.note(&format!(
                    "{}: {}",
                    snapshot.target.title(),
                    describe_reach(&reach(snapshot, parsed.as_ref()))
                ));
            }
            if let Err(code) = consent.given(printer) {
                return Ok(code);
            }
            let new = new_pause(session.client(), selector, reason, session.now()).await;
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
        let Self { selector, all: every, consent, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            let known = pauses(session.client()).await?;
            let chosen: Vec<&ObservedPause> = match &selector {
                Some(selector) => {
                    known.iter().filter(|pause| pause.key == key(Some(selector))).collect()
                }
                None => known.iter().collect(),
            };
            for pause in &known {
                printer.note(&describe_pause(pause));
            }
            if chosen.is_empty() && selector.is_some() {
                printer.error(
                    "no pause has this selector",
                    Some("write the selector exactly as in the list of pauses above"),
                );
                return Ok(ExitCode::Input);
            }
            if chosen.len() > 1 && !every {
                printer.error(
                    &format!("there are {} pauses", chosen.len()),
                    Some("choose one with --selector, or remove all with --all"),
                );
                return Ok(ExitCode::Usage);
            }
            if chosen.is_empty() {
                printer.note("nothing is paused");
            }
            let keys: Vec<String> = chosen.iter().map(|pause| pause.key.clone()).collect();
            if !keys.is_empty()
                && let Err(code) = consent.given(printer)
            {
                return Ok(code);
            }
            // Also if nothing is paused: a pause that was deleted in another way may have left
            // holds.
            let mut followed = session.follow_drivers(|_| true).await?;
            let failures =
                resume(session.client(), &mut followed.observers, &keys, || session.now()).await?;
            Ok(print_end(
                if keys.is_empty() { "nothing left to resume" } else { "resumed" },
                &failures,
                printer,
            ))
        })
    }
}

fn describe_reach(reach: &PauseReach) -> String {
    let held = match reach.held.len() {
        0 => String::new(),
        count => {
            format!(
                "; {count} nodes get the skip label, so that NVIDIA's controller leaves them alone"
            )
        }
    };
    let begun = match reach.begun.len() {
        0 => String::new(),
        count => format!(
            "; {count} nodes that are being upgraded {}: {}",
            reach.begun_then,
            listed(&reach.begun)
        ),
    };
    format!("no more of the {} nodes start{held}{begun}", reach.nodes)
}

fn describe_pause(pause: &ObservedPause) -> String {
    let nodes = pause
        .selector
        .as_ref()
        .map_or_else(|| "all nodes".to_owned(), |selector| format!("nodes with {selector}"));
    let why = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("paused by {} since {:.0}, {nodes}{why}", pause.by, pause.at)
}

fn print_end(word: &str, failures: &[NodeWriteFailure], printer: &mut Printer) -> ExitCode {
    if failures.is_empty() {
        printer.data(&format!("{word}\n"));
    } else {
        let nodes = listed(&node_write::texts(failures));
        printer.error(
            &format!("{word}, but unable to change every node: {nodes}"),
            node_write::hint(failures),
        );
    }
    node_write::exit_code(failures)
}
