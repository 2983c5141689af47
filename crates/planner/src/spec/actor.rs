//! Checks every live upgrade policy of NVIDIA's controller: exactly one controller upgrades the
//! nodes, and without the hook, NVIDIA's controller would be slow.

use crate::node::driver_nodes;
use crate::policies::{self, LivePolicy};
use crate::reason::Reason;
use contract::count::Count;
use contract::driver::Driver;
use contract::settings::{Mode, Settings};
use observed::Observed;

/// The limits of NVIDIA's controller in mode `steer` if every hold is lost: one node at a time …
const STEER_PARALLEL: u32 = 1;
/// … and no more than this share of its nodes unavailable.
const STEER_UNAVAILABLE_PERCENT: u32 = 25;

/// Checks the live policies.
///
/// # Errors
/// [`Reason::Precondition`] with the first field that is wrong for the mode.
pub(super) fn one_actor(observed: &Observed, settings: &Settings) -> Result<(), Reason> {
    policies::live(observed, settings).iter().try_for_each(|live| {
        match mismatch(live, observed, settings) {
            Some(PolicyMismatch { field, expected, found }) => Err(Reason::precondition(
                live.kind,
                &live.name,
                field,
                &expected,
                Some(&found),
                live.manager.as_ref(),
            )),
            None => Ok(()),
        }
    })
}

/// A field of a live policy that is wrong for the mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyMismatch {
    /// Its path in the custom resource.
    pub field: &'static str,
    /// The value that the mode needs.
    pub expected: String,
    /// The current value.
    pub found: String,
}

/// Returns the first field of a policy that is wrong for the settings' mode.
pub fn mismatch(
    live: &LivePolicy,
    observed: &Observed,
    settings: &Settings,
) -> Option<PolicyMismatch> {
    let expected = expected_auto_upgrade(settings.mode)?;
    let (policy, fields) = (&live.policy, live.fields);
    if policy.auto_upgrade != expected {
        let (expected, found) = (expected.to_string(), policy.auto_upgrade.to_string());
        return Some(PolicyMismatch { field: fields.auto_upgrade, expected, found });
    }
    if settings.mode != Mode::Steer {
        return None;
    }
    let found = policy.max_parallel.unwrap_or(STEER_PARALLEL);
    if found != STEER_PARALLEL {
        return Some(PolicyMismatch {
            field: fields.max_parallel,
            expected: STEER_PARALLEL.to_string(),
            found: found.to_string(),
        });
    }
    let most = Count::Percent(STEER_UNAVAILABLE_PERCENT);
    // A NicClusterPolicy has no such limit, and only one node at a time is required of it.
    let nodes =
        || driver_nodes(observed, settings.driver).filter(|node| live.governs(node)).count();
    let is_low = match policy.max_unavailable.as_deref().map(str::parse::<Count>) {
        Some(Ok(Count::Percent(share))) => share <= STEER_UNAVAILABLE_PERCENT,
        Some(Ok(Count::Number(count))) => count as usize <= most.resolve(nodes()).max(1),
        // The controller refuses an unreadable limit, and an absent one is not a limit.
        Some(Err(_)) | None => false,
    };
    (settings.driver == Driver::Gpu && !is_low).then(|| PolicyMismatch {
        field: fields.max_unavailable,
        expected: most.to_string(),
        found: policy.max_unavailable.clone().unwrap_or_else(|| "absent".to_owned()),
    })
}

/// Returns the value of `autoUpgrade` that a mode needs. `None`: the user decides; if it is off,
/// mode `assist` has no controller to assist.
fn expected_auto_upgrade(mode: Mode) -> Option<bool> {
    match mode {
        Mode::Observe | Mode::Assist => None,
        Mode::Steer => Some(true),
        Mode::Drive => Some(false),
    }
}
