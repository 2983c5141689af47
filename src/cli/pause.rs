//! `gpu-rollout pause` and `resume`.

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use super::user_request::{ReasonOption, write_request};
use crate::printer::Printer;
use contract::count::with_noun;
use contract::exit::ExitCode;
use contract::pause::{ANNOTATION, Pause};
use contract::selector::Selector;
use contract::user_request::RequestCommand;
use observed::pause::{ObservedPause, annotated_nodes};
use ops::node_write::{self, NodeWriteFailure};
use ops::pause::{PauseReach, key, pause, pauses, reach, resume};
use ops::session::FollowedRollouts;
use ops::user_request::new_request;
use planner::pods::listed;

/// Arguments of `gpu-rollout pause`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout pause --reason 'benchmark until 15:00'
  gpu-rollout pause -l nvidia.com/gpu.product=NVIDIA-H100 --reason INC-4711")]
pub struct PauseArguments {
    /// Pause only nodes that match this label selector, such as `pool=a,zone in (x,y)` [default:
    /// all nodes]
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
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
  gpu-rollout resume --all --yes")]
pub struct ResumeArguments {
    /// Remove the pause with this selector, written exactly as for `pause` [default: the pause,
    /// if there is only one]
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "all")]
    selector: Option<String>,
    /// Remove every pause
    #[arg(long)]
    all: bool,
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
        let Self { selector, reason: ReasonOption { reason }, consent, cluster } = self;
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
            let request = RequestCommand::Pause;
            let request = new_request(&session, request, selector.clone(), reason.clone()).await;
            let new = Pause { selector, by: request.by.clone(), reason, at: request.at };
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
        let Self { selector, all: every, reason, consent, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            let known = pauses(session.client()).await?;
            let mut followed = session.follow_drivers(|_| true).await?;
            // Every rollout observes all nodes.
            let annotated = followed.snapshots.first().into_iter();
            let annotated: Vec<String> = annotated
                .flat_map(|snapshot| annotated_nodes(&snapshot.observed))
                .map(|(node, _)| node.name.clone())
                .collect();
            let chosen: Vec<&ObservedPause> = match &selector {
                Some(selector) => {
                    known.iter().filter(|pause| pause.key == key(Some(selector))).collect()
                }
                None => known.iter().collect(),
            };
            for pause in &known {
                printer.note(&describe_pause(pause));
            }
            if !annotated.is_empty() {
                let (nodes, key) = (listed(&annotated), ANNOTATION);
                printer.note(&format!("paused by annotation {key}: {nodes}"));
            }
            let removes_annotations = selector.is_none() && !annotated.is_empty();
            if chosen.is_empty() && selector.is_some() {
                printer.error(
                    "no pause has this selector",
                    Some("write the selector exactly as in the list of pauses above"),
                );
                return Ok(ExitCode::Input);
            }
            let count = chosen.len() + usize::from(removes_annotations);
            if count > 1 && !every {
                printer.error(
                    &format!("there are {count} pauses"),
                    Some("choose one with --selector, or remove all with --all"),
                );
                return Ok(ExitCode::Usage);
            }
            if count == 0 {
                printer.note("nothing is paused");
            }
            let keys: Vec<String> = chosen.iter().map(|pause| pause.key.clone()).collect();
            if count > 0 {
                if let Err(code) = consent.given(printer) {
                    return Ok(code);
                }
                let ReasonOption { reason } = reason;
                let request = new_request(&session, RequestCommand::Resume, selector, reason).await;
                let hooks = followed.snapshots.iter().map(|snapshot| &snapshot.settings);
                write_request(&session, hooks, &request, printer).await;
            }
            // Also where nothing is paused: a pause that was removed in another way may have left
            // holds.
            let failures = resume(
                session.client(),
                &mut followed.observers,
                (&keys, removes_annotations),
                || session.now(),
            )
            .await?;
            Ok(print_end(
                if count == 0 { "nothing left to resume" } else { "resumed" },
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

fn describe_pause(pause: &ObservedPause) -> String {
    let nodes = pause
        .selector
        .as_ref()
        .map_or_else(|| "all nodes".to_owned(), |selector| format!("nodes with {selector}"));
    let why = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let since = pause.at.map(|at| format!(" since {at:.0}")).unwrap_or_default();
    format!("paused by {}{since}, {nodes}{why}", pause.by)
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
