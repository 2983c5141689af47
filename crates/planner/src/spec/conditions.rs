//! The operator's reports about custom resources that it cannot reconcile. A condition has no
//! generation: it may be older than the newest spec, and clears at the operator's next
//! reconciliation. So the hook waits for that within the grace time.

use crate::node::driver_nodes;
use crate::pools::DriverPools;
use crate::reason::Reason;
use contract::driver::Driver;
use contract::names;
use observed::{Observed, PolicyConditions};

/// Checks one custom resource (a ClusterPolicy, an NVIDIADriver, a GPUCluster).
///
/// # Errors
/// [`Reason::ReconcileFailed`] with the operator's own message.
pub fn reconciled(
    kind: &'static str,
    name: &str,
    conditions: &PolicyConditions,
) -> Result<(), Reason> {
    let Some(failure) = conditions.failure() else { return Ok(()) };
    Err(Reason::ReconcileFailed {
        kind,
        name: name.to_owned(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
    })
}

/// Checks every NVIDIADriver that a node depends on. An NVIDIADriver without nodes does not block
/// the rollout.
pub(super) fn nvidia_drivers(observed: &Observed) -> Result<(), Reason> {
    let pools = DriverPools::new(observed);
    for driver in observed.live_nvidia_drivers().filter(|driver| !driver.deleting) {
        if driver.conditions.failure().is_some()
            && driver_nodes(observed, Driver::Gpu).any(|node| pools.concerns(driver, node))
        {
            reconciled(names::NVIDIA_DRIVER_KIND, &driver.name, &driver.conditions)?;
        }
    }
    Ok(())
}
