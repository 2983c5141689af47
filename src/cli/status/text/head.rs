//! The lines above the table: the headline, the run, pauses, requests, holds, counts and the ETA.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::cli::table::counted;
use crate::cli::user_request::request_text;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::settings::Mode;
use contract::user_request::{RequestCommand, UserRequest};
use ops::hold_status::HoldStatus;
use ops::run_phase::RunPhase;
use ops::status::{
    Attention, BlockingCondition, Headline, LimitUse, PauseEnd, PauseStatus, PoolTotals,
    RolloutStatus, RunStatus, WaitAnswer,
};
use ops::time::{format_age, format_duration, format_remaining};
use planner::pods::listed;

/// At most this many requests of users have a line.
const MOST_REQUESTS: usize = 3;

/// Returns the lines about the fleet as a whole.
pub(super) fn lines(status: &RolloutStatus) -> Vec<String> {
    let headline = status.headline();
    let mut lines = headline_lines(&headline);
    let pause_end = status.pause_end();
    lines.push(status.title.clone());
    if let Some(run) = &status.run {
        let job = status.release.as_deref().and_then(|release| release.split_once('/'));
        let job =
            job.map(|(namespace, name)| format!("kubectl describe job -n {namespace} {name}"));
        lines.push(format!("run: {}", run_text(run, job.as_deref(), pause_end, status.at)));
        lines.extend(time_limit(run, status));
        let is_over = !run.phase.has_job() && run.phase != RunPhase::Never;
        if is_over && (headline.attention != Attention::Done || has_deferred(status)) {
            lines.extend(status.deploy_again.iter().map(|how| format!("to deploy again: {how}")));
        } else if status.fleet_wait_verdict.is_some()
            || matches!(pause_end, Some(PauseEnd::TooLate(_)))
            || status.held_back().is_some()
            || status.late_window().is_some()
        {
            let how = status.deploy_again.iter();
            lines.extend(how.map(|how| format!("to deploy again after the run has failed: {how}")));
        }
    }
    let stopped = status.stopped_nodes();
    lines.extend(status.pauses.iter().map(|pause| pause_text(pause, &stopped, status.at)));
    let proof = status.proof.as_ref().and_then(|proof| proof.text.as_ref());
    lines.extend(proof.map(|text| format!("proof of the new driver: {text}")));
    lines.extend(requests(status));
    lines.extend(held(status));
    lines.extend(counts(status));
    lines.extend(status.fleet.iter().map(|waiting| fleet_wait(waiting, status.at)));
    lines.extend(eta(status, headline.attention));
    lines
}

/// Returns whether only another run of the hook would upgrade the deferred nodes. In the other
/// modes, NVIDIA's controller upgrades them.
fn has_deferred(status: &RolloutStatus) -> bool {
    let decides = Mode::ALL.iter().any(|mode| mode.decides() && mode.name() == status.mode);
    decides && status.totals.deferred > 0
}

fn headline_lines(headline: &Headline) -> Vec<String> {
    let Headline { attention, text, wait } = headline;
    let lead = match attention {
        Attention::ActionNeeded => "ACTION NEEDED",
        Attention::Paused => "PAUSED",
        Attention::Aborted => "ABORTED",
        Attention::Waiting => "WAITING",
        Attention::InProgress => "in progress",
        Attention::Done => "done",
    };
    let wait = wait.as_ref().map(|answer| {
        let answer = match answer {
            WaitAnswer::Safe(why) if why.is_empty() => "yes".to_owned(),
            WaitAnswer::Safe(why) => format!("yes ({why})"),
            WaitAnswer::SafeFor(time) => time.clone(),
            WaitAnswer::Unsafe(why) => format!("no ({why})"),
        };
        format!("safe to wait: {answer}")
    });
    std::iter::once(format!("{lead}: {text}")).chain(wait).collect()
}

/// `job`: the command that describes the Job.
fn run_text(
    run: &RunStatus,
    job: Option<&str>,
    pause_end: Option<PauseEnd>,
    now: Timestamp,
) -> String {
    match (run.phase, run.verdict) {
        (RunPhase::Never, _) => "none so far: the hook of this release has not started".to_owned(),
        (RunPhase::Starting, _) => "starting".to_owned(),
        (RunPhase::Running, _) => format!("running for {}", format_age(run.started_at, now)),
        (RunPhase::WaitsForLease, _) => {
            "waiting until the Lease is free, which another hook holds".to_owned()
        }
        (RunPhase::BetweenPods, _) => {
            "its pod failed; the Job starts a new one within a minute (at most two times in a run)".to_owned()
        }
        (RunPhase::Ended, Some(verdict)) => {
            format!(
                "ended {} ago with {verdict}; {}",
                format_age(run.ended_at, now),
                run.message.as_deref().map(settled_text).unwrap_or_default()
            )
        }
        (RunPhase::Ended, None) => "ended".to_owned(),
        (RunPhase::Aborted, _) => match pause_end {
            Some(PauseEnd::Never) => {
                "aborted; it continues when gpu-rollout resume has been run and the bundle is deployed again".to_owned()
            }
            Some(PauseEnd::InTime(at) | PauseEnd::TooLate(at)) => format!(
                "aborted; it continues when the pause has ended at {at:.0} and the bundle is deployed again, by you or by a deployer that retries"
            ),
            None => {
                "aborted; it continues when the bundle is deployed again, by you or by a deployer that retries"
                    .to_owned()
            }
        },
        (RunPhase::Lost, _) => {
            let see = job
                .map(|job| format!("; to find out which of the two, run this before the next run deletes the Job: {job}"))
                .unwrap_or_default();
            format!("ended without a result: its Job reached its deadline, or all its pods failed{see}")
        }
        (RunPhase::JobDeleted, _) => "ended without a result: its Job was deleted".to_owned(),
    }
}

/// Returns the message of a verdict without the word that "success" says.
fn settled_text(message: &str) -> &str {
    message.strip_prefix("settled: ").unwrap_or(message)
}

/// Describes the time limit of a run that has not ended, and what happens then.
fn time_limit(run: &RunStatus, status: &RolloutStatus) -> Option<String> {
    let deadline = run.deadline?;
    let then = match status.mode {
        mode if mode == Mode::Drive.name() => {
            "Nodes with an unchanged driver are uncordoned; nodes in the middle of a replacement stay cordoned"
        }
        mode if mode == Mode::Steer.name() => {
            "NVIDIA's controller finishes the upgrades that have started; the other nodes stay held"
        }
        _ if status.driver == Driver::DaemonSet.traits().name => "No driver pod is replaced",
        _ => "NVIDIA's controller continues without it",
    };
    let code = ExitCode::Budget;
    let earlier = if status.fleet_wait_verdict.is_some() {
        "; the run fails earlier if the fleet waits for too long"
    } else {
        ""
    };
    let deployed = deployed_again(status);
    let pause = match status.pause_end() {
        Some(PauseEnd::InTime(at)) => format!(" The pause ends before that, at {at:.0}."),
        Some(PauseEnd::TooLate(at)) => {
            format!(" The pause ends too late, at {at:.0}, so the run fails first.")
        }
        Some(PauseEnd::Never) | None => String::new(),
    };
    Some(format!(
        "time limit: in {} ({deadline:.0}){earlier}.{pause} If nodes are not done by the time limit, the run fails ({}, exit code {}). {then}. {deployed}",
        format_remaining(deadline, status.at),
        code.name(),
        code.number()
    ))
}

/// Says how the rollout continues after the run has failed at its time limit.
fn deployed_again(status: &RolloutStatus) -> String {
    if let Some(does) = status.held_back() {
        let starts = status.automatic_retry.map_or_else(
            || "To continue, deploy the bundle again".to_owned(),
            |retry| format!("Then {retry}"),
        );
        return format!("{starts}; the next run {does}");
    }
    match (status.pause_end(), status.automatic_retry) {
        (Some(PauseEnd::TooLate(_)), None) => {
            "To continue, deploy the bundle again after the pause, or run gpu-rollout resume now"
                .to_owned()
        }
        (Some(PauseEnd::TooLate(_)), Some(retry)) => format!(
            "Then {retry}, and the next run waits until the pause ends; to continue at once after the failure, run gpu-rollout resume, and deploy the bundle again"
        ),
        (_, retry) => match (retry, status.late_window()) {
            (Some(retry), None) => format!(
                "Then {retry}; to continue at once after the failure, deploy the bundle again"
            ),
            (Some(retry), Some(opens)) if status.window_in_next_run().is_some() => {
                format!("Then {retry}, and the next run waits until the window opens at {opens:.0}")
            }
            (Some(retry), Some(opens)) => format!(
                "Then {retry}, but the next run ends before the window opens at {opens:.0}: deploy the bundle again then"
            ),
            (None, None) => "To continue, deploy the bundle again".to_owned(),
            (None, Some(opens)) => {
                format!("To continue, deploy the bundle again when the window opens at {opens:.0}")
            }
        },
    }
}

/// `stopped`: the nodes whose upgrade has started, and does not continue during a pause.
fn pause_text(pause: &PauseStatus, stopped: &[String], now: Timestamp) -> String {
    let PauseStatus { by, reason, selector, nodes, at, until } = pause;
    let age = at.map(|at| format!(" {} ago", format_age(Some(at), now))).unwrap_or_default();
    let scope = match (selector, nodes.is_empty()) {
        (Some(selector), _) => format!("nodes with {selector}"),
        (None, false) => listed(nodes),
        (None, true) => "all nodes".to_owned(),
    };
    let why = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let until = until.map(|until| format!(" {until:.0}, or until")).unwrap_or_default();
    let stopped = match stopped {
        [] => String::new(),
        [node] => format!(", and {node} does not continue,"),
        nodes => format!(", and {} do not continue,", listed(nodes)),
    };
    format!(
        "paused{age} by {by}{why}: {scope}: no further upgrade starts{stopped} until{until} you run gpu-rollout resume"
    )
}

/// The newest requests of users, newest first. A pause that is in force has its own line.
fn requests(status: &RolloutStatus) -> Vec<String> {
    let is_in_force = |request: &UserRequest| {
        request.command == RequestCommand::Pause
            && status.pauses.iter().any(|pause| pause.at == Some(request.at))
    };
    let started = status.run.as_ref().and_then(|run| run.started_at);
    let line = |request: &UserRequest| {
        let before = started.is_some_and(|started| request.at < started);
        let lead = if before { "request before this run" } else { "request" };
        format!("{lead}: {}", request_text(request, status.at))
    };
    let mut requests = status.requests.iter().rev().filter(|request| !is_in_force(request));
    let mut lines: Vec<String> = requests.by_ref().take(MOST_REQUESTS).map(line).collect();
    let others = requests.count();
    if others > 0 {
        lines.push(format!("… and {} (-o json lists them)", with_noun(others, "earlier request")));
    }
    lines
}

/// Returns lines about holds of hooks; in mode `steer` only if no running hook will release them.
fn held(status: &RolloutStatus) -> Vec<String> {
    let mut nodes: BTreeMap<String, (usize, &HoldStatus, Option<Timestamp>)> = BTreeMap::new();
    let is_listed = |held: &&HoldStatus| held.release.is_some() || status.holds_unattended;
    for held in status.nodes.iter().filter_map(|row| row.held.as_ref()).filter(is_listed) {
        let known = nodes.entry(held.text()).or_insert((0, held, None));
        *known = (known.0 + 1, held, known.2.into_iter().chain(held.since).min());
    }
    let line = |(count, held, at): (usize, &HoldStatus, Option<Timestamp>)| {
        let nodes = with_noun(count, "node");
        format!("{nodes} {}", held.text_with_age(at, status.at))
    };
    nodes.into_values().map(line).collect()
}

fn counts(status: &RolloutStatus) -> Vec<String> {
    let totals = &status.totals;
    let counts = [
        (totals.done, "done"),
        (totals.in_progress, "in progress"),
        (totals.pending, "pending"),
        (totals.unknown, "unknown (fleet waits)"),
        (status.failed_upgrades(), "failed"),
        (status.not_started(), "not started"),
        (totals.deferred, "deferred"),
    ];
    let counts = counted(&counts);
    let counts = if counts.is_empty() { String::new() } else { format!(": {counts}") };
    let fleet = format!(
        "{}{counts}; slots in use: {}, unavailable: {}",
        with_noun(totals.nodes, "node"),
        limit_text(totals.slots),
        limit_text(totals.unavailable)
    );
    let pool = |pool: &PoolTotals| {
        let PoolTotals { nvidia_driver, nodes, slots, unavailable } = pool;
        format!(
            "NVIDIADriver {nvidia_driver}: {}; slots in use: {}, unavailable: {}",
            with_noun(*nodes, "node"),
            limit_text(*slots),
            limit_text(*unavailable)
        )
    };
    std::iter::once(fleet).chain(totals.pools.iter().map(pool)).collect()
}

fn limit_text(limit: LimitUse) -> String {
    limit.limit.map_or_else(
        || format!("{} (no limit)", limit.used),
        |most| format!("{} of {most}", limit.used),
    )
}

/// Describes what the whole fleet waits for. The list at the end has the remedy.
fn fleet_wait(waiting: &BlockingCondition, now: Timestamp) -> String {
    let since = waiting.since.at;
    let age = since.map(|at| format!(" for {}", format_age(Some(at), now))).unwrap_or_default();
    format!("the whole fleet has been waiting{age}: {}: {}", waiting.reason, waiting.text)
}

/// Returns whether no run is in progress.
fn has_no_job(status: &RolloutStatus) -> bool {
    status.run.as_ref().is_some_and(|run| !run.phase.has_job())
}

/// Describes the ETA, or why there is none. The headline and the wait of the fleet are not
/// repeated.
fn eta(status: &RolloutStatus, attention: Attention) -> Option<String> {
    let totals = &status.totals;
    if let Some(missing) = &totals.no_eta {
        return match (attention, missing.reason) {
            // An automatic retry starts the next run, too.
            (Attention::ActionNeeded, _) if has_no_job(status) => {
                Some("no ETA before the next run".to_owned())
            }
            (Attention::ActionNeeded, _) => Some("no ETA before you act".to_owned()),
            (Attention::Paused, _) => Some("no ETA during the pause".to_owned()),
            (Attention::Aborted, _) => Some("no ETA before the next run".to_owned()),
            (_, "fleet-waits") => Some("no ETA while the whole fleet waits".to_owned()),
            _ => Some(format!("no ETA: {}", missing.text)),
        };
    }
    let Some(end) = totals.end else {
        // Nodes are left that this run does not start any more.
        let is_left = attention == Attention::ActionNeeded || status.window_in_next_run().is_some();
        return is_left.then(|| "no ETA before the next run".to_owned());
    };
    let measured = match totals.pace.measured_nodes {
        0 => "as set in the recipe".to_owned(),
        nodes => format!("measured on {}", with_noun(nodes, "node")),
    };
    let seconds = i64::try_from(totals.pace.per_node_seconds).unwrap_or(i64::MAX);
    let pace = format_duration(SignedDuration::from_secs(seconds));
    Some(format!(
        "ends in about {} ({end:.0}): {pace} per node, {measured}",
        format_remaining(end, status.at)
    ))
}
