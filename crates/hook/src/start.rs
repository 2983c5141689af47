//! The start of a run, before the first write: is there anything to do, and does the ServiceAccount have the rights?
//!
//! Order: an earlier pod of this Job stored a verdict → exit with it; D completed and the live state still good → exit without a
//! write; rights; and only then the Lease.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use contract::budget::working_seconds;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::record::RunRecord;
use contract::settings::FORMAT_VERSION;
use contract::task::Task;
use kube_io::access::missing_rights;
use kube_io::call::CallError;
use kube_io::job::JobStart;
use kube_io::lease::{FreeLease, LeaseCandidate};
use kube_io::record::{RecordError, RecordRefusal, RecordStore, StoredRecord};
use kube_io::repeated_warning::RepeatedWarning;
use kube_io::watches::{dra_namespaces, slice_version};
use kube_io::{job, network};
use planner::decide::decide;
use planner::hold::missing;
use planner::memory::RunMemory;
use planner::retain::{RetainDecision, keeping};
use planner::spec::fingerprint;
use planner::spec::leadership::OperatorActivity;

use super::clock::later;
use super::run_caches::RunCaches;
use super::{EndReason, HookProcess, RunEnd};

/// The state that the loop starts from.
pub(super) struct StartedRun<'a> {
    /// The caches, in step a moment ago.
    pub(super) caches: RunCaches<'a>,
    /// The version at which the Lease was free before the caches were started.
    pub(super) free: Option<FreeLease>,
    /// The run record.
    pub(super) store: RecordStore,
    /// When the run must have ended.
    pub(super) deadline: Timestamp,
}

/// For so long a renewal of the operator's Lease is awaited: it lasts 15 s with Helm and is renewed every two.
const LEADER: Duration = Duration::from_secs(15);
/// The pause between attempts to reach the API server.
const PAUSE: Duration = Duration::from_secs(2);

/// Reads everything that the loop starts from. `Err`: the run has ended, without a write.
pub(super) async fn start<'a>(
    hook: &'a HookProcess,
    leases: &LeaseCandidate,
) -> Result<StartedRun<'a>, RunEnd> {
    check_settings(hook)?;
    let working = Duration::from_secs(working_seconds(hook.settings.budget_seconds));
    // Counted from the process's start until the Job itself tells.
    let limit = later(hook.clock.now(), working);
    let started = reach(hook, limit, async || job_start(hook).await).await?.since(hook.clock.now());

    let mut store = RecordStore::new(&hook.client, &hook.settings.namespace, &hook.settings.record);
    let record = read(hook, &mut store, hook.last_attempt(later(started, working))).await?;
    // A pod before this one may have seen the Job begin earlier.
    let earlier = record.run.as_ref().filter(|run| run.job == hook.identity.job);
    let deadline = later(earlier.map_or(started, |run| started.min(run.started_at)), working);
    let last = hook.last_attempt(deadline);
    if let Some(verdict) = earlier.and_then(|run| run.verdict.clone()) {
        tracing::info!(
            code = verdict.code.name(),
            "an earlier pod of this Job has come to a verdict"
        );
        return Err(verdict.into());
    }

    let namespaces =
        reach(hook, last, async || dra_namespaces(&hook.client, &hook.settings).await).await?;
    let version =
        reach(hook, last, async || slice_version(&hook.client, &hook.settings).await).await?;
    let nothing_to_retain = nothing_to_retain(hook, last).await?;
    // Before the caches: what they hold is then newer than whatever another hook has done, if no other hook takes the Lease in between.
    let free = if hook.settings.mode.decides() { leases.free().await } else { None };
    let mut caches = RunCaches::start(hook, namespaces, version);
    caches.wait_until_in_step(last).await?;
    if let Some(why) = nothing_to_retain
        && let Some(ended) = nothing_to_do(hook, &record, &mut caches, deadline, why).await
    {
        return Err(ended);
    }
    check_rights(hook, last, &caches).await?;
    Ok(StartedRun { caches, free, store, deadline })
}

fn check_settings(hook: &HookProcess) -> Result<(), RunEnd> {
    let found = hook.settings.format_version;
    if found > FORMAT_VERSION {
        let message = format!(
            "the settings have format {found}, this version knows {FORMAT_VERSION}: use the hook image of the chart's version"
        );
        return Err(RunEnd::new(EndReason::SettingsNewer, message));
    }
    match hook.settings.contradiction() {
        Some(contradiction) => Err(RunEnd::new(EndReason::SettingsContradictory, contradiction)),
        None => Ok(()),
    }
}

/// Reads when the Job began. The same answer tells the API server's time, to which the run's clock is set: whatever it compares with times of objects, or with
/// what an earlier pod wrote, is then of one clock.
async fn job_start(hook: &HookProcess) -> Result<JobStart, CallError> {
    let settings = &hook.settings;
    let asked = hook.clock.elapsed();
    let (start, at) =
        job::read_start(&hook.client, &settings.namespace, &settings.release, &hook.identity.job)
            .await;
    if let Some(at) = at {
        hook.clock.set_by_server(at, asked);
    } else if !start.as_ref().is_err_and(CallError::is_passing) {
        tracing::warn!(
            "the API server's time is unknown: its answer has no Date header; using the clock of this pod"
        );
    }
    match start {
        // Without a Job of its own (run by hand, or the Job was deleted meanwhile) the budget counts from now.
        Err(CallError::NotFound(_)) => Ok(JobStart::default()),
        start => start,
    }
}

/// Reads the record, as long as it takes to reach the server.
pub(super) async fn read(
    hook: &HookProcess,
    store: &mut RecordStore,
    deadline: Timestamp,
) -> Result<StoredRecord, RunEnd> {
    let mut warning = RepeatedWarning::new(
        "unable to read the run record; trying again",
        "the run record was read",
    );
    loop {
        match store.read().await {
            Ok(record) => {
                warning.end();
                return Ok(record);
            }
            Err(error @ RecordError::Newer { .. }) => {
                return Err(RunEnd::new(EndReason::RecordNewer, error.to_string()));
            }
            Err(RecordError::Call(CallError::NotFound(message), _)) => {
                return Err(record_missing(&hook.settings.release, &message));
            }
            Err(RecordError::Call(error, _))
                if error.is_passing() && hook.clock.now() < deadline =>
            {
                warning.note(&error);
                tokio::time::sleep(PAUSE).await;
            }
            Err(RecordError::Call(error, _)) => return Err(failed_call(hook, error).await),
            // Only writes are.
            Err(RecordError::Refused(refusal)) => return Err(record_refused(&refusal)),
        }
    }
}

/// Ends a run whose record cannot be written, however often it is tried.
pub(super) fn record_refused(refusal: &RecordRefusal) -> RunEnd {
    RunEnd::new(EndReason::RecordNotWritable, refusal.to_string())
}

/// Ends a run of a release whose ConfigMap for the record does not exist.
pub(super) fn record_missing(release: &str, message: &str) -> RunEnd {
    let message = format!(
        "the run record is missing ({message}): run `helm upgrade` of release {release} again"
    );
    RunEnd::new(EndReason::RecordMissing, message)
}

/// Calls until the server answers, at most until the deadline.
async fn reach<T>(
    hook: &HookProcess,
    deadline: Timestamp,
    request: impl AsyncFn() -> Result<T, CallError>,
) -> Result<T, RunEnd> {
    let mut warning = RepeatedWarning::new(
        "unable to reach the API server; trying again",
        "the API server answers again",
    );
    loop {
        match request().await {
            Ok(answer) => {
                warning.end();
                return Ok(answer);
            }
            Err(error) if error.is_passing() && hook.clock.now() < deadline => {
                warning.note(&error);
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(failed_call(hook, error).await),
        }
    }
}

/// Ends a run that could not start because of a call. A refusal is answered with the whole list of missing rights.
pub(super) async fn failed_call(hook: &HookProcess, error: CallError) -> RunEnd {
    if error.is_passing() {
        return RunEnd::new(
            EndReason::ApiServerUnreachable,
            format!("the API server could not be reached in time: {error}"),
        );
    }
    let CallError::Forbidden(message) = error else {
        return RunEnd::new(
            EndReason::UnexpectedAnswer,
            format!("unexpected answer of the API server: {error}"),
        );
    };
    // Where even this is refused, nothing is known of the namespaces and they are left out.
    let namespaces = dra_namespaces(&hook.client, &hook.settings).await.unwrap_or_default();
    match missing_rights(&hook.client, &hook.settings, &namespaces, &[]).await {
        Ok(missing) if !missing.is_empty() => rights_missing(hook, &missing),
        Ok(_) | Err(_) => {
            RunEnd::new(EndReason::RequestRefused, format!("the API server refuses: {message}"))
        }
    }
}

fn rights_missing(hook: &HookProcess, missing: &[String]) -> RunEnd {
    let (release, namespace) = (&hook.settings.release, &hook.settings.namespace);
    let message = format!(
        "ServiceAccount `{release}` in namespace `{namespace}` lacks {} rights, nothing was written: {}; what to do: run `helm upgrade` of release {release} again \
         (roles for namespaces that did not exist at its last run are made then)",
        missing.len(),
        missing.join(", "),
    );
    RunEnd::new(EndReason::RightsMissing, message)
}

async fn check_rights(
    hook: &HookProcess,
    deadline: Timestamp,
    caches: &RunCaches<'_>,
) -> Result<(), RunEnd> {
    let granted = caches.watches.granted();
    let ask =
        async || missing_rights(&hook.client, &hook.settings, &caches.namespaces, &granted).await;
    let missing = reach(hook, deadline, ask).await?;
    if missing.is_empty() { Ok(()) } else { Err(rights_missing(hook, &missing)) }
}

/// Returns why task `prepare-network` has nothing to write; `None`: it has.
async fn nothing_to_retain(
    hook: &HookProcess,
    deadline: Timestamp,
) -> Result<Option<&'static str>, RunEnd> {
    if !hook.settings.has(Task::PrepareNetwork) {
        return Ok(Some("no such task"));
    }
    let policy = reach(hook, deadline, async || network::read_policy(&hook.client).await).await?;
    Ok(
        match keeping(
            policy.as_ref(),
            &hook.settings.component,
            hook.settings.component_version.as_deref(),
        ) {
            RetainDecision::Nothing(why) => Some(why),
            RetainDecision::Annotate(_) | RetainDecision::Lost => None,
        },
    )
}

/// Returns the end of a run that has nothing to do. `why`: the reason for which the NicClusterPolicy needs nothing.
async fn nothing_to_do(
    hook: &HookProcess,
    record: &StoredRecord,
    caches: &mut RunCaches<'_>,
    deadline: Timestamp,
    why: &str,
) -> Option<RunEnd> {
    let settings = &hook.settings;
    let completed = record
        .run
        .as_ref()
        .filter(|run| run.digest == settings.digest)
        .and_then(|run| Some((run, run.verdict.as_ref()?)));
    let completed = completed.filter(|(_, verdict)| verdict.code == ExitCode::Success);
    if settings.watches() {
        let (run, verdict) = completed?;
        wait_for_leader(hook, caches).await;
        return is_still_good(hook, run, record, caches, deadline).then(|| {
            end_idle(&format!(
                "this rollout was completed {:.0} and everything is still as it left it",
                verdict.at
            ))
        });
    }
    if !settings.has(Task::Preflight) && !settings.has(Task::Hold) {
        return Some(end_idle(why));
    }
    // The same was about to be deployed before, and nothing stood against it.
    let now = hook.clock.now();
    let held = !settings.has(Task::Hold)
        || missing(&caches.watches.observed(now), settings, now).is_empty();
    let (_, verdict) = completed?;
    Some(end_idle(&format!(
        "the same was about to be deployed {:.0}: {}",
        verdict.at, verdict.message
    )))
    .filter(|_| held)
}

fn end_idle(why: &str) -> RunEnd {
    let message = format!("nothing to do: {why}");
    tracing::info!("{message}");
    RunEnd::new(EndReason::NothingToDo, message)
}

/// Waits until the operator's leader was seen to renew its Lease, at most until it would have expired: whether there is nothing to do is judged
/// by what it has rendered. Reads only.
async fn wait_for_leader(hook: &HookProcess, caches: &RunCaches<'_>) {
    let until = Instant::now() + LEADER;
    while hook.settings.has(Task::Settle)
        && hook.settings.driver == Driver::Gpu
        && caches.observed().operator_lease.is_some_and(|lease| lease.renewed.is_none())
    {
        // After the time is over the state is judged as it is: the run that follows says what is missing.
        if tokio::time::timeout_at(until, caches.watches.changed()).await.is_err() {
            return;
        }
    }
}

/// Whether the live state is as a completed run left it: the deployer fired though nothing has changed.
fn is_still_good(
    hook: &HookProcess,
    run: &RunRecord,
    record: &StoredRecord,
    caches: &RunCaches<'_>,
    deadline: Timestamp,
) -> bool {
    let observed = caches.observed();
    if run.specs != fingerprint(&observed) {
        return false;
    }
    let now = hook.clock.now();
    let mut memory = RunMemory::new(now, deadline);
    memory.nodes.clone_from(&record.nodes);
    memory.configs.clone_from(&run.configs);
    // Nothing that is deployed has changed, so that nothing is expected of the operator.
    memory.operator = Some(OperatorActivity::settled(&observed));
    decide(&observed, &hook.settings, &memory, now).well
}
