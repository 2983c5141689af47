//! The start of a run, before the first write.
//!
//! The order of the steps:
//!
//! 1. If an earlier pod of this Job stored a verdict, exit with it.
//! 2. If D is completed and the live state is still good, exit without a write.
//! 3. Check the rights of the ServiceAccount.
//! 4. Only then may the loop take the Lease.

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
    /// The caches, which were in step with the API server when the start ended.
    pub(super) caches: RunCaches<'a>,
    /// The version at which the Lease was free before the caches were started.
    pub(super) free: Option<FreeLease>,
    /// The run record.
    pub(super) store: RecordStore,
    /// When the run must have ended.
    pub(super) deadline: Timestamp,
}

/// How long the hook waits for a renewal of the operator's Lease. The chart's Lease lasts 15 s and
/// is renewed every 2 s.
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
    // Until the start time of the Job is known, the budget counts from the start of the process.
    let limit = later(hook.clock.now(), working);
    let started = reach(hook, limit, async || job_start(hook).await).await?.since(hook.clock.now());

    let mut store = RecordStore::new(&hook.client, &hook.settings.namespace, &hook.settings.record);
    let record = read(hook, &mut store, hook.last_attempt(later(started, working))).await?;
    // An earlier pod of the Job may have recorded an earlier start.
    let earlier = record.run.as_ref().filter(|run| run.job == hook.identity.job);
    let deadline = later(earlier.map_or(started, |run| started.min(run.started_at)), working);
    let last = hook.last_attempt(deadline);
    if let Some(verdict) = earlier.and_then(|run| run.verdict.clone()) {
        tracing::info!(code = verdict.code.name(), "an earlier pod of this Job recorded a verdict");
        return Err(verdict.into());
    }

    let namespaces =
        reach(hook, last, async || dra_namespaces(&hook.client, &hook.settings).await).await?;
    let version =
        reach(hook, last, async || slice_version(&hook.client, &hook.settings).await).await?;
    let nothing_to_retain = nothing_to_retain(hook, last).await?;
    // Read the Lease before the caches start. If no other hook takes it in between, the caches are
    // newer than everything that another hook has done.
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
            "the settings have format version {found}, but this hook supports only up to {FORMAT_VERSION}; hint: use the hook image of the chart's version"
        );
        return Err(RunEnd::new(EndReason::SettingsNewer, message));
    }
    match hook.settings.contradiction() {
        Some(contradiction) => Err(RunEnd::new(EndReason::SettingsContradictory, contradiction)),
        None => Ok(()),
    }
}

/// Reads the start time of the Job. The same answer contains the API server's time, and the run's
/// clock is set to it. The run compares its clock with timestamps of objects and with those of an
/// earlier pod, so all of them must be from one clock.
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
        // Without a Job (the hook was run by hand, or the Job was deleted) the budget counts from
        // now.
        Err(CallError::NotFound(_)) => Ok(JobStart::default()),
        start => start,
    }
}

/// Reads the record. Repeats failed reads until the deadline.
pub(super) async fn read(
    hook: &HookProcess,
    store: &mut RecordStore,
    deadline: Timestamp,
) -> Result<StoredRecord, RunEnd> {
    let mut warning =
        RepeatedWarning::new("cannot read the run record; retrying", "read the run record");
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
            // Only writes can be refused.
            Err(RecordError::Refused(refusal)) => return Err(record_refused(&refusal)),
        }
    }
}

/// Returns the end of a run whose record cannot be written, so that a retry is useless.
pub(super) fn record_refused(refusal: &RecordRefusal) -> RunEnd {
    RunEnd::new(EndReason::RecordNotWritable, refusal.to_string())
}

/// Returns the end of a run whose release has no ConfigMap for the record.
pub(super) fn record_missing(release: &str, message: &str) -> RunEnd {
    let message = format!(
        "the run record is missing: {message}; hint: run `helm upgrade` of release `{release}` again"
    );
    RunEnd::new(EndReason::RecordMissing, message)
}

/// Repeats a request until the server answers, at most until the deadline.
async fn reach<T>(
    hook: &HookProcess,
    deadline: Timestamp,
    request: impl AsyncFn() -> Result<T, CallError>,
) -> Result<T, RunEnd> {
    let mut warning = RepeatedWarning::new(
        "cannot reach the API server; retrying",
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

/// Returns the end of a run that cannot start because of a failed call. If the server refused the
/// call, the message lists all missing rights.
pub(super) async fn failed_call(hook: &HookProcess, error: CallError) -> RunEnd {
    if error.is_passing() {
        return RunEnd::new(
            EndReason::ApiServerUnreachable,
            format!("cannot reach the API server in time: {error}"),
        );
    }
    let CallError::Forbidden(message) = error else {
        return RunEnd::new(
            EndReason::UnexpectedAnswer,
            format!("unexpected answer from the API server: {error}"),
        );
    };
    // If this call is refused too, the namespaces are unknown, and their rights are left out.
    let namespaces = dra_namespaces(&hook.client, &hook.settings).await.unwrap_or_default();
    match missing_rights(&hook.client, &hook.settings, &namespaces, &[]).await {
        Ok(missing) if !missing.is_empty() => rights_missing(hook, &missing),
        Ok(_) | Err(_) => RunEnd::new(
            EndReason::RequestRefused,
            format!("the API server refuses a request: {message}"),
        ),
    }
}

fn rights_missing(hook: &HookProcess, missing: &[String]) -> RunEnd {
    let (release, namespace) = (&hook.settings.release, &hook.settings.namespace);
    let message = format!(
        "ServiceAccount `{release}` in namespace `{namespace}` lacks {} rights, nothing was written: {}; hint: run `helm upgrade` of release `{release}` again \
         (it creates the roles in namespaces that did not exist at its last run)",
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

/// Returns why task `prepare-network` has nothing to write. `None`: it must write.
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

/// Returns the end of a run that has nothing to do. `why`: the reason why the NicClusterPolicy
/// needs no change.
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
                "this rollout completed at {:.0} and the cluster is unchanged since then",
                verdict.at
            ))
        });
    }
    if !settings.has(Task::Preflight) && !settings.has(Task::Hold) {
        return Some(end_idle(why));
    }
    // An earlier run prepared the same deployment and succeeded.
    let now = hook.clock.now();
    let held = !settings.has(Task::Hold)
        || missing(&caches.watches.observed(now), settings, now).is_empty();
    let (_, verdict) = completed?;
    Some(end_idle(&format!(
        "the same deployment was already prepared at {:.0}: {}",
        verdict.at, verdict.message
    )))
    .filter(|_| held)
}

fn end_idle(why: &str) -> RunEnd {
    let message = format!("nothing to do: {why}");
    tracing::info!("{message}");
    RunEnd::new(EndReason::NothingToDo, message)
}

/// Waits until the operator's leader renews its Lease, at most until the Lease would expire.
/// Whether there is nothing to do depends on what this leader has rendered. Reads only.
async fn wait_for_leader(hook: &HookProcess, caches: &RunCaches<'_>) {
    let until = Instant::now() + LEADER;
    while hook.settings.has(Task::Settle)
        && hook.settings.driver == Driver::Gpu
        && caches.observed().operator_lease.is_some_and(|lease| lease.renewed.is_none())
    {
        // On a timeout, assess the state as it is: the run that follows reports what is missing.
        if tokio::time::timeout_at(until, caches.watches.changed()).await.is_err() {
            return;
        }
    }
}

/// Whether the live state is as a completed run left it, so that the hook fired without any change.
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
    // The deployed specs are unchanged, so the operator has nothing to do.
    memory.operator = Some(OperatorActivity::settled(&observed));
    decide(&observed, &hook.settings, &memory, now).well
}
