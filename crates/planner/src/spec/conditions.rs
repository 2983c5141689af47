//! What the operator reports about a custom resource that it cannot act on. A condition has no generation: it may be older than the newest
//! spec, and goes when the operator has looked again. So it is waited for, within the grace time.

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

/// Checks every NVIDIADriver that a node depends on. One that concerns no node stops nobody.
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
