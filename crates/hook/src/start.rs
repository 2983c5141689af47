//! Before the first write: is there anything to do, and may we do it?
//!
//! Order: an earlier pod of this Job had the last word → exit with it; D completed and the live state still good → exit without a
//! write; rights; and only then the Lease.

use jiff::{SignedDuration, Timestamp};

use contract::budget::{GIVING_BACK_SECONDS, working_seconds};
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::settings::FORMAT_VERSION;
use contract::task::Task;
use kube_io::access::missing_rights;
use kube_io::call::CallError;
use kube_io::job::JobStart;
use kube_io::lease::{FreeLease, LeaseCandidate};
use kube_io::record::{RecordError, RecordRefusal, RecordStore, StoredRecord};
use kube_io::watches::{CacheState, Watches, dra_namespaces, slice_version};
use kube_io::{job, network};
use planner::decide::decide;
use planner::hold::missing;
use planner::memory::RunMemory;
use planner::retain::{RetainDecision, keeping};
use planner::spec::fingerprint;
use planner::spec::leadership::OperatorActivity;

use super::{EndReason, HookProcess, RunEnd};

/// What the loop starts from.
pub(super) struct StartedRun {
    /// The caches, in step a moment ago.
    pub(super) watches: Watches,
    /// The version at which the Lease was free before the caches were begun.
    pub(super) free: Option<FreeLease>,
    /// The namespaces of the DRA driver that there are.
    pub(super) namespaces: Vec<String>,
    /// The version of `resource.k8s.io` that is read.
    pub(super) version: Option<&'static str>,
    /// The run record.
    pub(super) store: RecordStore,
    /// When the run must have ended.
    pub(super) deadline: Timestamp,
}

/// What is said where an older state has to be taken for the present.
pub(super) const HISTORY_WENT_BACK: &str =
    "the API server has shown an older state for a minute, as after a restore of etcd; beginning anew with what it shows";

/// For so long a renewal of the operator's Lease is looked for: it lasts 15 s with Helm and is renewed every two.
const LEADER: std::time::Duration = std::time::Duration::from_secs(15);
/// The pause between attempts to reach the API server.
const PAUSE: std::time::Duration = std::time::Duration::from_secs(2);

pub(super) async fn begin(hook: &HookProcess, leases: &LeaseCandidate) -> Result<StartedRun, RunEnd> {
    let settings = &hook.settings;
    if settings.format_version > FORMAT_VERSION {
        let message = format!(
            "the settings have format {}, this version knows {FORMAT_VERSION}: use the hook image of the chart's version",
            settings.format_version
        );
        return Err(RunEnd::new(EndReason::SettingsNewer, message));
    }
    if let Some(contradiction) = settings.contradiction() {
        return Err(RunEnd::new(EndReason::SettingsContradictory, contradiction));
    }
    let after = |started: Timestamp| started.saturating_add(seconds(working_seconds(settings.budget_seconds))).unwrap_or(Timestamp::MAX);
    // Counted from the process's start until the Job itself tells.
    let limit = after(hook.clock.now());
    let started = reach(hook, limit, async || job_start(hook).await).await;
    let started = match started {
        Ok(start) => start.since(hook.clock.now()),
        // Without a Job of its own (run by hand, or the Job was deleted meanwhile) the budget counts from now.
        Err(StartFailure::Call(CallError::NotFound(_))) => hook.clock.now(),
        Err(failure) => return Err(failed(hook, failure).await),
    };

    let mut store = RecordStore::new(&hook.client, &settings.namespace, &settings.record);
    let record = read(hook, &mut store, last_moment(hook, after(started))).await?;
    // A pod before this one may have seen the Job begin earlier.
    let before = record.run.as_ref().filter(|run| run.job == hook.identity.job).map_or(started, |run| run.started_at);
    let deadline = after(started.min(before));
    let last = last_moment(hook, deadline);
    if let Some(verdict) = record.run.as_ref().filter(|run| run.job == hook.identity.job).and_then(|run| run.verdict.clone()) {
        tracing::info!(code = verdict.code.name(), "an earlier pod of this Job has come to a verdict");
        return Err(verdict.into());
    }

    let namespaces = reach(hook, last, async || dra_namespaces(&hook.client, settings).await).await;
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(failure) => return Err(failed(hook, failure).await),
    };
    let version = match reach(hook, last, async || slice_version(&hook.client, settings).await).await {
        Ok(version) => version,
        Err(failure) => return Err(failed(hook, failure).await),
    };
    let prepared = prepared(hook, last).await?;
    // Before the caches: what they hold is then newer than whatever another hook has done, if nobody takes the Lease in between.
    let free = if settings.mode.decides() { leases.free().await } else { None };
    let start = || Watches::start(&hook.client, settings, namespaces.clone(), version);
    let mut watches = start();
    in_step(hook, &mut watches, start, last).await?;
    if let Some(why) = prepared {
        let looks = settings.has(Task::Preflight) || settings.has(Task::Hold);
        let ended = if settings.watches() {
            if is_completed(hook, &record) {
                leader_seen(hook, &mut watches).await;
            }
            nothing_to_do(hook, &record, &watches, deadline)
        } else if looks {
            let now = hook.clock.now();
            let held = !settings.has(Task::Hold) || missing(&watches.observed(now), settings, now).is_empty();
            looked_before(hook, &record).filter(|_| held)
        } else {
            Some(nothing(why))
        };
        if let Some(ended) = ended {
            return Err(ended);
        }
    }
    rights(hook, last, &namespaces, &watches).await?;
    Ok(StartedRun { watches, free, namespaces, version, store, deadline })
}

/// When the Job began. The same answer tells the API server's time, to which the run's clock is set: whatever it compares with times of objects, or with
/// what an earlier pod wrote, is then of one clock.
async fn job_start(hook: &HookProcess) -> Result<JobStart, CallError> {
    let settings = &hook.settings;
    let asked = hook.clock.elapsed();
    let (start, at) = job::start_of(&hook.client, &settings.namespace, &settings.release, &hook.identity.job).await;
    if let Some(at) = at {
        hook.clock.set_by_server(at, asked);
    } else {
        tracing::warn!("the API server's time is unknown: its answer has no Date header; using the clock of this pod");
    }
    start
}

/// Reads the record, as long as it takes to reach the server.
pub(super) async fn read(hook: &HookProcess, store: &mut RecordStore, deadline: Timestamp) -> Result<StoredRecord, RunEnd> {
    loop {
        match store.read().await {
            Ok(record) => return Ok(record),
            Err(error @ RecordError::Newer { .. }) => return Err(RunEnd::new(EndReason::RecordNewer, error.to_string())),
            Err(RecordError::Call(CallError::NotFound(message), _)) => return Err(record_missing(hook, &message)),
            Err(RecordError::Call(error, _)) if error.is_passing() && hook.clock.now() < deadline => {
                tracing::warn!(%error, "unable to read the run record; trying again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(RecordError::Call(error, _)) => return Err(failed(hook, error.into()).await),
            // Only writes are.
            Err(RecordError::Refused(refusal)) => return Err(record_refused(&refusal)),
        }
    }
}

/// The run record cannot be written, however often it is tried.
pub(super) fn record_refused(refusal: &RecordRefusal) -> RunEnd {
    RunEnd::new(EndReason::RecordNotWritable, refusal.to_string())
}

/// The chart's ConfigMap is not there.
pub(super) fn record_missing(hook: &HookProcess, message: &str) -> RunEnd {
    let message = format!("the run record is missing ({message}): run `helm upgrade` of release {} again", hook.settings.release);
    RunEnd::new(EndReason::RecordMissing, message)
}

/// Why a call was given up.
enum StartFailure {
    Call(CallError),
    Deadline(CallError),
}

impl From<CallError> for StartFailure {
    fn from(error: CallError) -> Self {
        if error.is_passing() { Self::Deadline(error) } else { Self::Call(error) }
    }
}

/// Calls until the server answers, at most until the deadline.
async fn reach<T>(hook: &HookProcess, deadline: Timestamp, request: impl AsyncFn() -> Result<T, CallError>) -> Result<T, StartFailure> {
    loop {
        match request().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_passing() && hook.clock.now() < deadline => {
                tracing::warn!(%error, "unable to reach the API server; trying again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The end of a run that could not begin. A refusal is answered with the whole list of missing rights.
async fn failed(hook: &HookProcess, failure: StartFailure) -> RunEnd {
    match failure {
        StartFailure::Deadline(error) => {
            RunEnd::new(EndReason::ApiServerUnreachable, format!("the API server could not be reached in time: {error}"))
        }
        StartFailure::Call(CallError::Forbidden(message)) => {
            // Where even this is refused, nothing is known of the namespaces and they are left out.
            let namespaces = dra_namespaces(&hook.client, &hook.settings).await.unwrap_or_default();
            match missing_rights(&hook.client, &hook.settings, &namespaces, &[]).await {
                Ok(missing) if !missing.is_empty() => RunEnd::new(EndReason::RightsMissing, missing_message(hook, &missing)),
                Ok(_) | Err(_) => RunEnd::new(EndReason::RequestRefused, format!("the API server refuses: {message}")),
            }
        }
        StartFailure::Call(error) => RunEnd::new(EndReason::UnexpectedAnswer, format!("unexpected answer of the API server: {error}")),
    }
}

fn missing_message(hook: &HookProcess, missing: &[String]) -> String {
    format!(
        "ServiceAccount `{}` in namespace `{}` lacks {} rights, nothing was written: {}; what to do: run `helm upgrade` of release {} again \
         (roles for namespaces that did not exist at its last run are made then)",
        hook.settings.release,
        hook.settings.namespace,
        missing.len(),
        missing.join(", "),
        hook.settings.release
    )
}

async fn rights(hook: &HookProcess, deadline: Timestamp, namespaces: &[String], watches: &Watches) -> Result<(), RunEnd> {
    let granted = watches.granted();
    match reach(hook, deadline, async || missing_rights(&hook.client, &hook.settings, namespaces, &granted).await).await {
        Ok(missing) if missing.is_empty() => Ok(()),
        Ok(missing) => Err(RunEnd::new(EndReason::RightsMissing, missing_message(hook, &missing))),
        Err(failure) => Err(failed(hook, failure).await),
    }
}

/// Until when it is worth trying: the deadline, and where nodes may have to be given back the time for that.
pub(super) fn last_moment(hook: &HookProcess, deadline: Timestamp) -> Timestamp {
    let more = if hook.settings.has(Task::Drive) { GIVING_BACK_SECONDS } else { 0 };
    deadline.saturating_add(seconds(more)).unwrap_or(Timestamp::MAX)
}

/// Waits until all caches are in step. `start`: begins them anew where the server's history went back.
pub(super) async fn in_step(
    hook: &HookProcess,
    watches: &mut Watches,
    start: impl Fn() -> Watches,
    deadline: Timestamp,
) -> Result<(), RunEnd> {
    loop {
        let sync = watches.sync();
        hook.metrics.in_step(matches!(sync, CacheState::InStep));
        match sync {
            CacheState::InStep => return Ok(()),
            CacheState::Forbidden(message) => return Err(failed(hook, StartFailure::Call(CallError::Forbidden(message))).await),
            CacheState::Behind(why) if hook.clock.now() >= deadline => {
                return Err(RunEnd::new(EndReason::ApiServerUnreachable, format!("the API server could not be read in time: {why}")));
            }
            CacheState::Behind(_) => tokio::select! {
                () = watches.changed() => {}
                () = tokio::time::sleep_until(hook.clock.instant(deadline)) => {}
            },
            CacheState::Past(why) => {
                tracing::warn!(why, "{HISTORY_WENT_BACK}");
                *watches = start();
            }
        }
    }
}

/// Why task `prepare-network` has nothing to write; `None`: it has.
async fn prepared(hook: &HookProcess, deadline: Timestamp) -> Result<Option<&'static str>, RunEnd> {
    if !hook.settings.has(Task::PrepareNetwork) {
        return Ok(Some("no such task"));
    }
    match reach(hook, deadline, async || network::policy(&hook.client).await).await {
        Ok(policy) => Ok(match keeping(policy.as_ref(), &hook.settings.component, hook.settings.component_version.as_deref()) {
            RetainDecision::Nothing(why) => Some(why),
            RetainDecision::Annotate(_) | RetainDecision::Lost => None,
        }),
        Err(failure) => Err(failed(hook, failure).await),
    }
}

fn nothing(why: &str) -> RunEnd {
    let message = format!("nothing to do: {why}");
    tracing::info!("{message}");
    RunEnd::new(EndReason::NothingToDo, message)
}

/// The same was about to be deployed before, and nothing stood against it.
fn looked_before(hook: &HookProcess, record: &StoredRecord) -> Option<RunEnd> {
    let run = record.run.as_ref().filter(|run| run.digest == hook.settings.digest)?;
    let verdict = run.verdict.as_ref().filter(|verdict| verdict.code == ExitCode::Success)?;
    Some(nothing(&format!("the same was about to be deployed {}: {}", verdict.at, verdict.message)))
}

/// D is completed.
fn is_completed(hook: &HookProcess, record: &StoredRecord) -> bool {
    let run = record.run.as_ref().filter(|run| run.digest == hook.settings.digest);
    run.and_then(|run| run.verdict.as_ref()).is_some_and(|verdict| verdict.code == ExitCode::Success)
}

/// Waits until the operator's leader was seen to renew its Lease, at most until it would have expired: whether there is nothing to do is judged
/// by what it has rendered. Reads only.
async fn leader_seen(hook: &HookProcess, watches: &mut Watches) {
    let until = tokio::time::Instant::now() + LEADER;
    while hook.settings.has(Task::Settle)
        && hook.settings.driver == Driver::Gpu
        && watches.observed(hook.clock.now()).operator_lease.is_some_and(|lease| lease.renewed.is_none())
    {
        // After the time is over the state is judged as it is: the run that follows says what is missing.
        if tokio::time::timeout_at(until, watches.changed()).await.is_err() {
            return;
        }
    }
}

/// D is completed and the live state still good: the deployer fired though nothing has changed.
fn nothing_to_do(hook: &HookProcess, record: &StoredRecord, watches: &Watches, deadline: Timestamp) -> Option<RunEnd> {
    let run = record.run.as_ref().filter(|_| is_completed(hook, record))?;
    let observed = watches.observed(hook.clock.now());
    if run.specs != fingerprint(&observed) {
        return None;
    }
    let now = hook.clock.now();
    let mut memory = RunMemory::new(now, deadline);
    memory.nodes.clone_from(&record.nodes);
    memory.configs.clone_from(&run.configs);
    // Nothing that is deployed has changed, so that nothing is expected of the operator.
    memory.operator = Some(OperatorActivity::settled(&observed));
    let decision = decide(&observed, &hook.settings, &memory, now);
    decision.well.then(|| {
        let completed = run.verdict.as_ref().map_or(now, |verdict| verdict.at);
        nothing(&format!("this rollout was completed {completed} and everything is still as it left it"))
    })
}

fn seconds(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}
