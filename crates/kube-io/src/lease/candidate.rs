//! A process that wants the Lease: how it takes the Lease and releases it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio::time::Instant;

use contract::names::{LEASE_NAME, LEASE_NAMESPACE};

use super::held::HeldLease;
use super::{FreeLease, LEASE_SECONDS, LONGEST_LEASE_SECONDS, PAUSE, api};
use crate::api_collection::{ApiCollection, LEASES};
use crate::cache::CacheTable;
use crate::call::{CallError, REFUSAL, call, optional};
use crate::list_watch::{ObjectSelection, follow};
use crate::repeated_warning::RepeatedWarning;
use crate::sink::ProjectedTable;
use crate::version_floor::ResourceVersionFloor;

/// The maximum number of attempts to release the Lease.
const RELEASES: u32 = 3;

/// A process that wants the Lease.
#[derive(Clone)]
pub struct LeaseCandidate {
    client: Client,
    pub(super) identity: String,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
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

    pub(super) fn api(&self) -> Api<Lease> {
        api(&self.client)
    }

    pub(super) fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
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
            "unable to take the Lease; trying again",
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
                    tracing::debug!(%error, "unable to release the Lease; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "unable to release the Lease");
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
}
