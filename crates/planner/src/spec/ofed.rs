//! Checks that the Network Operator has observed the NicClusterPolicy. The state of the policy is
//! not used: a policy whose driver DaemonSet matches no node never becomes `ready`, and
//! `status.appliedStates` keeps entries of states that no longer exist.

use crate::reason::Reason;
use crate::retain::release;
use contract::driver::Driver;
use contract::names;
use contract::settings::Settings;
use observed::{NicClusterPolicy, Observed, ObservedDaemonSet};

use super::{
    ImageTagRule, actor, carries_image, chart, labeled, newest_observed, operator, rolled_out,
    served,
};

pub(super) fn observed_spec(
    observed: &Observed,
    settings: &Settings,
    nodes: bool,
) -> Result<(), Reason> {
    let policy = served(&observed.nic_cluster_policy, Driver::Ofed)?;
    let operator = operator(observed, settings)?;
    chart::of_operator(operator, settings)?;
    let Some(policy) = policy else {
        if settings.expected.nic_cluster_policy {
            return Err(Reason::PolicyMissing {
                kind: Driver::Ofed.traits().policy_kind,
                name: names::NIC_CLUSTER_POLICY.to_owned(),
            });
        }
        rolled_out(operator, settings)?;
        return daemon_sets(observed).try_for_each(newest_observed);
    };
    precondition(policy, settings)?;
    if policy.ofed.is_some() {
        actor::one_actor(observed, settings)?;
    }
    rolled_out(operator, settings)?;
    let found = policy.observed_generation;
    if found.map_or(tells_generation(settings), |found| found < policy.generation) {
        return Err(Reason::SpecNotObserved {
            object: format!("nicclusterpolicy/{}", names::NIC_CLUSTER_POLICY),
            field: "observedGeneration of condition Ready".to_owned(),
            expected: policy.generation.to_string(),
            found: found.map_or_else(|| "absent".to_owned(), |found| found.to_string()),
        });
    }
    daemon_sets(observed).try_for_each(newest_observed)?;
    let Some(ofed) = &policy.ofed else { return Ok(()) };
    // There is one DaemonSet for each pool of nodes. Whether a node affinity excludes all of them
    // is not evaluated here.
    if nodes && own(observed).next().is_none() {
        return Err(Reason::DaemonSetMissing { what: "OFED driver" });
    }
    // The last node of a pool leaves its DaemonSet behind; no node waits for it.
    for daemon_set in
        own(observed).filter(|daemon_set| daemon_set.desired > 0 || !daemon_set.observed)
    {
        carries_image(daemon_set, ofed, ImageTagRule::WithSuffix)?;
    }
    Ok(())
}

/// Year and month of the first operator version whose condition contains its generation.
const TELLS_GENERATION: (u32, u32) = (26, 7);

fn tells_generation(settings: &Settings) -> bool {
    settings
        .component_version
        .as_deref()
        .and_then(release)
        .is_some_and(|version| version >= TELLS_GENERATION)
}

/// Returns the DaemonSets of all custom resources: of the NicClusterPolicy while it has a driver,
/// and of NicNodePolicies.
pub(super) fn daemon_sets(observed: &Observed) -> impl Iterator<Item = &ObservedDaemonSet> {
    let asked = observed.live_nic_cluster_policy().is_some_and(|policy| policy.ofed.is_some());
    labeled(observed, (names::OFED_DRIVER_LABEL, None))
        .filter(move |daemon_set| asked || !is_own(daemon_set))
}

/// Returns the DaemonSets of the NicClusterPolicy.
fn own(observed: &Observed) -> impl Iterator<Item = &ObservedDaemonSet> {
    labeled(observed, (names::OFED_DRIVER_LABEL, None)).filter(|daemon_set| is_own(daemon_set))
}

/// Operators before 26.4 have no other owner, and set no label.
fn is_own(daemon_set: &ObservedDaemonSet) -> bool {
    daemon_set
        .template_labels
        .get(names::OFED_OWNER_LABEL)
        .is_none_or(|owner| owner == names::OFED_OWNER_POLICY)
}

/// Checks that the live NicClusterPolicy matches the values of this bundle.
fn precondition(policy: &NicClusterPolicy, settings: &Settings) -> Result<(), Reason> {
    let Some(expected) = &settings.expected.ofed_driver_version else { return Ok(()) };
    let found = policy.ofed.as_ref().and_then(|ofed| ofed.version.as_ref());
    if found == Some(expected) {
        return Ok(());
    }
    let (traits, found) = (Driver::Ofed.traits(), found.map(String::as_str));
    let manager = policy.driver_field_manager.as_ref();
    Err(Reason::precondition(
        traits.policy_kind,
        names::NIC_CLUSTER_POLICY,
        traits.version_field,
        expected,
        found,
        manager,
    ))
}
