//! The watch of the operator's Lease: who is the leader, and whether the leader renews it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use contract::driver::Driver;
use contract::names::OPERATOR_LEASE;
use contract::settings::Settings;
use contract::task::Task;
use observed::{OperatorLease, project};

use super::starter::{TableGroup, WatchStarter};
use crate::api_collection::LEASES;
use crate::cache::CacheTable;
use crate::list_watch::ObjectSelection;

/// After this time without a renewal, the operator's Lease is listed: its leader is gone, or the
/// watch is broken.
const OPERATOR_SILENCE: Duration = Duration::from_secs(20);

pub(super) struct OperatorLeaseWatch {
    table: CacheTable<OperatorLease>,
    renewals: Mutex<RenewalObservation>,
}

impl OperatorLeaseWatch {
    pub(super) fn start(watch: &mut WatchStarter, settings: &Settings) -> Self {
        watch.in_group(TableGroup::Leases);
        let needed = settings.has(Task::Settle) && settings.driver == Driver::Gpu;
        let selection = ObjectSelection::named(OPERATOR_LEASE).changing_within(OPERATOR_SILENCE);
        let leases = (LEASES, Some(settings.operator_namespace.as_str()));
        let table =
            watch.table(needed, "the operator's Lease", leases, selection, project::operator_lease);
        Self { table, renewals: Mutex::default() }
    }

    /// Returns the Lease, with the time at which its renewal was last observed.
    pub(super) fn observed(&self, now: Timestamp) -> Option<OperatorLease> {
        let lease = self.table.values().into_iter().next()?;
        // No code panics while it holds this lock.
        let renewed = self
            .renewals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .observe(lease.renew_time, now);
        Some(OperatorLease { renewed, ..lease })
    }
}

/// The last observed `renewTime`, and when it was first observed to differ from the previous one.
#[derive(Debug, Default)]
struct RenewalObservation {
    renew_time: Option<Timestamp>,
    renewed: Option<Timestamp>,
}

impl RenewalObservation {
    /// Returns when a renewal was last observed. The first `renewTime` proves nothing: its holder
    /// may be gone.
    fn observe(&mut self, renew_time: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let before = self.renew_time.replace(renew_time);
        if before != Some(renew_time) {
            self.renewed = before.map(|_| now);
        }
        self.renewed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_seen_from_the_second_renew_time_on() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut renewals = RenewalObservation::default();
        assert_eq!(renewals.observe(at(10), at(11)), None);
        assert_eq!(renewals.observe(at(10), at(12)), None);
        assert_eq!(renewals.observe(at(12), at(13)), Some(at(13)));
        assert_eq!(renewals.observe(at(12), at(20)), Some(at(13)), "the same renewal");
    }
}
