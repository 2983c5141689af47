//! Failed nodes that a user may take as proven: their new driver runs, and its checks failed.

use super::record::{NodeFailure, UpgradeRecord};
use super::state::UpgradeState;
use crate::node::DriverPod;

/// Why a user cannot take a node as proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFailedProof<'r> {
    /// Its upgrade has not failed.
    NotFailed,
    /// It failed for another cause than its proof: usually before its new driver ran.
    OtherCause(&'r NodeFailure),
    /// Its new driver does not run: a user cannot prove such a driver.
    NoDriver,
}

/// Returns record and failure of a node that a user may take as proven. `driver`: its driver pod.
///
/// # Errors
/// Why a user cannot take the node as proven.
pub fn failed_proof<'r>(
    record: Option<&'r UpgradeRecord>,
    driver: Option<&DriverPod<'_>>,
) -> Result<(&'r UpgradeRecord, &'r NodeFailure), NoFailedProof<'r>> {
    let failed = record.filter(|record| record.state == UpgradeState::UpgradeFailed);
    let (record, failure) = failed
        .and_then(|record| Some((record, record.failure.as_ref()?)))
        .ok_or(NoFailedProof::NotFailed)?;
    if !failure.cause.is_failed_proof() {
        return Err(NoFailedProof::OtherCause(failure));
    }
    if !driver.is_some_and(DriverPod::is_current) {
        return Err(NoFailedProof::NoDriver);
    }
    Ok((record, failure))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use observed::ObservedPod;

    use super::*;
    use crate::drive_upgrade::cause::FailureCause;

    #[test]
    fn only_failed_checks_of_a_running_driver_can_be_overruled() {
        let works = ObservedPod { containers_ready: true, ..ObservedPod::default() };
        let ends = ObservedPod { deleting: true, ..works.clone() };
        let broken = ObservedPod::default();
        let driver = |pod, newest| Some(DriverPod { pod, newest, template_digest: None });
        let record = |state, cause: Option<FailureCause>| UpgradeRecord {
            failure: cause.map(|cause| NodeFailure { cause, message: "why".to_owned() }),
            ..UpgradeRecord::new(state, "digest", Timestamp::UNIX_EPOCH)
        };
        let proof = record(UpgradeState::UpgradeFailed, Some(FailureCause::AcceptanceFailed));
        assert_eq!(failed_proof(None, None), Err(NoFailedProof::NotFailed));
        for unfailed in [
            record(UpgradeState::UpgradeFailed, None),
            record(UpgradeState::ValidationRequired, Some(FailureCause::AcceptanceFailed)),
        ] {
            let found = failed_proof(Some(&unfailed), driver(&works, true).as_ref());
            assert_eq!(found, Err(NoFailedProof::NotFailed));
        }
        let drain = record(UpgradeState::UpgradeFailed, Some(FailureCause::DrainTimeout));
        let found = failed_proof(Some(&drain), driver(&works, true).as_ref());
        let failure = drain.failure.as_ref().expect("a failure");
        assert_eq!(found, Err(NoFailedProof::OtherCause(failure)));
        for (pod, is_provable) in [
            (None, false),
            (driver(&works, false), false),
            (driver(&ends, true), false),
            (driver(&broken, true), false),
            (driver(&works, true), true),
        ] {
            let found = failed_proof(Some(&proof), pod.as_ref());
            assert_eq!(found.is_ok(), is_provable, "{pod:?}");
            assert!(is_provable || found == Err(NoFailedProof::NoDriver), "{pod:?}");
        }
    }
}
