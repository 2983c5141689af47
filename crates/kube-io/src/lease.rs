//! The Lease of the hooks: one hook Job at a time acts in a cluster. A Lease alone does not prevent
//! late writes. Therefore its holder checks [`HeldLease::is_valid`] before each write, and the
//! writes have preconditions.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use contract::names::{LEASE_NAME, LEASE_NAMESPACE};

use super::api_collection::{ApiCollection, LEASES};
use super::cache::CacheTable;
use super::call::{CallError, REFUSAL, call, optional};
use super::change;
use super::list_watch::{ObjectSelection, follow};
use super::repeated_warning::RepeatedWarning;
use super::sink::ProjectedTable;
use super::version_floor::ResourceVersionFloor;

/// How long a Lease is valid without renewal: the next holder waits this long after a holder was
/// killed.
pub const LEASE_SECONDS: u16 = 20;
/// The maximum wait for another holder that does not renew, whatever duration it requested.
pub const LONGEST_LEASE_SECONDS: u16 = 120;
/// The renewal interval: two attempts may fail before the Lease is lost.
const RENEW: Duration = Duration::from_secs(6);
/// The holder stops writing this long before others may take the Lease.
const MARGIN: Duration = Duration::from_secs(4);
/// The maximum duration of a write that starts at the last moment. It is less than [`MARGIN`], so
/// that the write is cancelled before others may take the Lease. A margin of a whole call
/// ([`super::call::CALL_TIMEOUT`]) would leave no time for a second renewal attempt.
const LAST_WRITE: Duration = Duration::from_secs(3);
/// The pause after a failed attempt.
const PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of attempts to release the Lease.
const RELEASES: u32 = 3;

/// The holder of the Lease, as recorded in the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The holder: the pod of a hook Job.
    pub name: String,
    /// When the Lease expires unless the holder renews it, by the holder's clock.
    pub until: Option<Timestamp>,
}

fn api(client: &Client) -> Api<Lease> {
    Api::namespaced(client.clone(), LEASE_NAMESPACE)
}

/// Reads the holder of the Lease. `None`: the Lease is free. RBAC: `get` on the Lease.
///
/// # Errors
/// The call failed.
pub async fn holder(client: &Client) -> Result<Option<LeaseHolder>, CallError> {
    Ok(optional(call(api(client).get(LEASE_NAME)).await)?.and_then(|lease| {
        let spec = lease.spec?;
        let name = spec.holder_identity.filter(|name| !name.is_empty())?;
        let renewed = spec.renew_time.map(|time| time.0);
        let seconds = spec
            .lease_duration_seconds
            .map(|seconds| SignedDuration::from_secs(i64::from(seconds)));
        let until = renewed
            .zip(seconds)
            .map(|(renewed, seconds)| renewed.saturating_add(seconds).unwrap_or(Timestamp::MAX));
        Some(LeaseHolder { name, until })
    }))
}

/// Deletes the Lease if it is free. RBAC: `get` and `delete` on the Lease.
///
/// # Errors
/// A call failed.
pub async fn delete(client: &Client) -> Result<(), CallError> {
    let lease = optional(call(api(client).get(LEASE_NAME)).await)?;
    let Some(lease) = lease.filter(|lease| FreeLease::from_lease(lease).is_some()) else {
        return Ok(());
    };
    let preconditions = Some(Preconditions {
        resource_version: lease.metadata.resource_version,
        uid: lease.metadata.uid,
    });
    match change::delete(
        api(client),
        LEASE_NAME,
        &DeleteParams { preconditions, ..DeleteParams::default() },
    )
    .await
    {
        // Another process has just taken it, or deleted it.
        Ok(()) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A process that wants the Lease.
#[derive(Clone)]
pub struct LeaseCandidate {
    client: Client,
    identity: String,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// A resource version at which the Lease was free. A holder that takes it afterwards creates
/// another version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeLease(String);

impl FreeLease {
    /// Returns the version of a free Lease. `None`: the Lease is held, or has no version.
    fn from_lease(lease: &Lease) -> Option<Self> {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref())
            .unwrap_or_default();
        lease
            .metadata
            .resource_version
            .clone()
            .filter(|version| holder.is_empty() && !version.is_empty())
            .map(Self)
    }
}

/// A Lease that is held; renewed in the background until it is released or dropped.
pub struct HeldLease {
    leases: LeaseCandidate,
    /// The version at which the Lease was taken, if it was free.
    taken_from: Option<FreeLease>,
    valid_until: watch::Receiver<Instant>,
    renewing: tokio::task::JoinHandle<()>,
}

/// Another holder as observed, by the clock of this process: other clocks are not trusted.
struct ObservedHolder {
    renewed: Option<MicroTime>,
    holder: String,
    since: Instant,
    /// The duration that the holder requested: a newer version may request more than this one.
    duration: Duration,
}

impl ObservedHolder {
    fn free_at(&self) -> Instant {
        self.since + self.duration
    }
}

impl LeaseCandidate {
    /// Creates a candidate with this identity, which must be unique for each pod.
    pub fn new(
        client: &Client,
        identity: &str,
        now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        Self { client: client.clone(), identity: identity.to_owned(), now }
    }

    fn api(&self) -> Api<Lease> {
        api(&self.client)
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime((self.now)());
        let renewal = before.filter(|spec| spec.holder_identity.as_ref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::from(LEASE_SECONDS)),
            acquire_time: renewal
                .and_then(|spec| spec.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if renewal.is_some() {
                transitions
            } else {
                transitions.saturating_add(1)
            }),
            ..LeaseSpec::default()
        }
    }

    /// Waits until the Lease is free and takes it. Calls `waiting` for every new holder that it
    /// waits for. RBAC: `get`, `list`, `watch`, `update` on the Lease, `create` on `leases` in
    /// `default`.
    ///
    /// # Errors
    /// The server refuses permanently; temporary failures are tolerated. There is no deadline: the
    /// caller drops the future.
    pub async fn acquire(&self, waiting: impl Fn(&str)) -> Result<HeldLease, CallError> {
        let changed = Arc::new(Notify::new());
        let table: CacheTable<LeaseSpec> = CacheTable::new(Arc::clone(&changed));
        let mut seen: Option<ObservedHolder> = None;
        let mut refused: Option<Instant> = None;
        let mut warning = RepeatedWarning::new(
            "cannot take the Lease; trying again",
            "the Lease can be read and written again",
        );
        let watching = follow(
            ApiCollection::new(&self.client, LEASES, Some(LEASE_NAMESPACE)),
            ObjectSelection::named(LEASE_NAME),
            ProjectedTable::new(table, |lease: &Lease| lease.spec.clone()),
            ResourceVersionFloor::default(),
        );
        let mut watching = std::pin::pin!(watching);
        loop {
            let started = Instant::now();
            match self.try_acquire(&mut seen, &waiting).await {
                Ok(Some((lease, taken_from))) => {
                    warning.end();
                    return Ok(HeldLease::new(self.clone(), lease, taken_from, started));
                }
                Ok(None) => {
                    warning.end();
                    refused = None;
                    let free_at = seen.as_ref().map_or_else(Instant::now, ObservedHolder::free_at);
                    // The watch shows a release at once. A killed holder changes nothing, so the
                    // timer runs as well. The pause keeps the watch's own first list from causing a
                    // second read.
                    tokio::select! {
                        () = &mut watching => {}
                        () = changed.notified() => {}
                        () = tokio::time::sleep_until(free_at.max(Instant::now() + PAUSE)) => {}
                    }
                }
                Err(error) => {
                    let is_passing = match &error {
                        CallError::Conflict(_) => true,
                        CallError::Forbidden(_) | CallError::Denied { .. } => {
                            refused.get_or_insert(started).elapsed() < REFUSAL
                        }
                        CallError::Timeout
                        | CallError::NotFound(_)
                        | CallError::Refused { .. }
                        | CallError::Unreachable(_) => error.is_passing(),
                    };
                    if !is_passing {
                        return Err(error);
                    }
                    warning.note(&error);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Reads the version of the Lease, if it is free. A Lease that cannot be read counts as held.
    /// RBAC: `get` on the Lease.
    pub async fn free(&self) -> Option<FreeLease> {
        call(self.api().get(LEASE_NAME)).await.ok().as_ref().and_then(FreeLease::from_lease)
    }

    async fn try_acquire(
        &self,
        seen: &mut Option<ObservedHolder>,
        waiting: impl Fn(&str),
    ) -> Result<Option<(Lease, Option<FreeLease>)>, CallError> {
        let api = self.api();
        let Some(mut lease) = optional(call(api.get(LEASE_NAME)).await)? else {
            let metadata =
                ObjectMeta { name: Some(LEASE_NAME.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            return call(api.create(&PostParams::default(), &lease))
                .await
                .map(|lease| Some((lease, None)));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if !holder.is_empty() && holder != self.identity {
            let same = seen
                .as_ref()
                .filter(|seen| seen.holder == holder && seen.renewed == spec.renew_time);
            let since = same.map_or_else(Instant::now, |seen| seen.since);
            if seen.as_ref().is_none_or(|seen| seen.holder != holder) {
                waiting(&holder);
            }
            let asked = spec
                .lease_duration_seconds
                .and_then(|seconds| u64::try_from(seconds).ok())
                .unwrap_or_default();
            let duration = Duration::from_secs(
                asked.clamp(LEASE_SECONDS.into(), LONGEST_LEASE_SECONDS.into()),
            );
            if asked > LONGEST_LEASE_SECONDS.into()
                && seen.as_ref().is_none_or(|seen| seen.holder != holder)
            {
                tracing::warn!(
                    holder,
                    asked,
                    "the holder requests a long Lease; this process takes it {LONGEST_LEASE_SECONDS} s after its last renewal"
                );
            }
            let other = seen.insert(ObservedHolder {
                renewed: spec.renew_time.clone(),
                holder,
                since,
                duration,
            });
            if Instant::now() < other.free_at() {
                return Ok(None);
            }
        }
        let taken_from = FreeLease::from_lease(&lease);
        lease.spec = Some(self.spec(Some(&spec)));
        // With the version that was read, so that the call fails if another process has taken the
        // Lease since.
        call(api.replace(LEASE_NAME, &PostParams::default(), &lease))
            .await
            .map(|lease| Some((lease, taken_from)))
    }

    /// Releases the Lease if this process holds it, even if the answer to its last write never
    /// arrived. Returns the version at which the Lease is free.
    pub async fn release(&self) -> Option<FreeLease> {
        for _ in 0..RELEASES {
            match self.try_release().await {
                Ok(free) => return free,
                // A concurrent renewal, or a temporary failure.
                Err(
                    error @ (CallError::Conflict(_)
                    | CallError::Refused { .. }
                    | CallError::Unreachable(_)),
                ) => {
                    tracing::debug!(%error, "cannot release the Lease; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot release the Lease");
                    break;
                }
            }
        }
        tracing::warn!("the Lease was not released; it expires in {LEASE_SECONDS} s");
        None
    }

    async fn try_release(&self) -> Result<Option<FreeLease>, CallError> {
        let api = self.api();
        let Some(mut lease) = optional(call(api.get(LEASE_NAME)).await)? else { return Ok(None) };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) {
            return Ok(None);
        }
        spec.holder_identity = None;
        spec.renew_time = None;
        call(api.replace(LEASE_NAME, &PostParams::default(), &lease))
            .await
            .map(|released| FreeLease::from_lease(&released))
    }

    /// Renews the Lease until another process holds it or the server refuses. Retries temporary
    /// failures while this process may still hold the Lease.
    async fn renew(self, mut lease: Lease, valid_until: watch::Sender<Instant>) {
        let api = self.api();
        let mut warning = RepeatedWarning::new(
            "cannot renew the Lease; trying again",
            "the Lease was renewed again",
        );
        loop {
            let until = *valid_until.borrow();
            tokio::time::sleep(
                RENEW.min(until.saturating_duration_since(Instant::now())).max(PAUSE),
            )
            .await;
            let started = Instant::now();
            if started >= until {
                tracing::warn!("the Lease was lost: it could not be renewed in time");
                return;
            }
            lease.spec = Some(self.spec(lease.spec.as_ref()));
            match call(api.replace(LEASE_NAME, &PostParams::default(), &lease)).await {
                Ok(renewed) => {
                    warning.end();
                    lease = renewed;
                    valid_until.send_replace(end_of_validity(started));
                }
                Err(error @ (CallError::Conflict(_) | CallError::NotFound(_))) => {
                    match call(api.get(LEASE_NAME)).await {
                        // An update of this process whose answer was lost, or another client's
                        // annotation.
                        Ok(current)
                            if current
                                .spec
                                .as_ref()
                                .and_then(|spec| spec.holder_identity.as_ref())
                                == Some(&self.identity) =>
                        {
                            lease = current;
                        }
                        Ok(_) | Err(CallError::NotFound(_)) => {
                            tracing::warn!(%error, "the Lease was taken away");
                            // Another process holds it now, so writes in progress end at once.
                            valid_until
                                .send_replace(started.checked_sub(MARGIN).unwrap_or(started));
                            return;
                        }
                        Err(error) => warning.note(&error),
                    }
                }
                Err(error) => warning.note(&error),
            }
        }
    }
}

fn end_of_validity(renewed: Instant) -> Instant {
    renewed + Duration::from_secs(LEASE_SECONDS.into()) - MARGIN
}

/// Waits until the Lease has been invalid for `extra`.
async fn wait_until_over(valid_until: &mut watch::Receiver<Instant>, extra: Duration) {
    loop {
        let until = *valid_until.borrow_and_update() + extra;
        if Instant::now() >= until {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            changed = valid_until.changed() => {
                if changed.is_err() {
                    // The renewal task has ended.
                    return tokio::time::sleep_until(until).await;
                }
            }
        }
    }
}

impl HeldLease {
    fn new(
        leases: LeaseCandidate,
        lease: Lease,
        taken_from: Option<FreeLease>,
        started: Instant,
    ) -> Self {
        let (sender, valid_until) = watch::channel(end_of_validity(started));
        let renewing = tokio::spawn(leases.clone().renew(lease, sender));
        Self { leases, taken_from, valid_until, renewing }
    }

    /// Returns whether no other process has held the Lease since it was free at that version.
    pub fn follows(&self, free: &FreeLease) -> bool {
        self.taken_from.as_ref() == Some(free)
    }

    /// Returns whether it is certain that no other process can hold the Lease.
    pub fn is_valid(&self) -> bool {
        Instant::now() < *self.valid_until.borrow()
    }

    /// Performs a write, and cancels it before others may take the Lease, because the next holder
    /// would not expect it. A request that the server has already received continues, so writes
    /// have preconditions as well. Returns `None` if the write was cancelled.
    pub async fn within<T>(&self, write: impl Future<Output = T>) -> Option<T> {
        let mut valid_until = self.valid_until.clone();
        tokio::select! {
            biased;
            // Checked first, so that a late write does not start.
            () = wait_until_over(&mut valid_until, LAST_WRITE) => None,
            answer = write => Some(answer),
        }
    }

    /// Waits until the Lease is lost.
    pub async fn lost(&mut self) {
        wait_until_over(&mut self.valid_until, Duration::ZERO).await;
    }

    /// Releases the Lease, so that the next holder need not wait. Returns the version at which it
    /// is free. A failure is only logged; the next holder then waits [`LEASE_SECONDS`].
    pub async fn release(self) -> Option<FreeLease> {
        self.renewing.abort();
        if self.is_valid() { self.leases.release().await } else { None }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lost_lease_is_noticed_at_once() {
        let started = Instant::now();
        let (sender, mut valid_until) = watch::channel(started + Duration::from_secs(20));
        let renew_then_lose = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            sender.send_replace(started + Duration::from_secs(25));
            tokio::time::sleep(Duration::from_secs(16)).await;
            sender.send_replace(started);
        };
        let noticed = async {
            wait_until_over(&mut valid_until, Duration::ZERO).await;
            started.elapsed()
        };
        let (noticed, ()) = tokio::join!(noticed, renew_then_lose);
        assert_eq!(noticed, Duration::from_secs(21));
    }
}
