//! Checks that the newest operator has acted on the newest spec. Its Deployment is available, and
//! the status says `ready`, long before its newest pod is the leader: until the Lease of the old
//! leader expires, no pod reconciles, and the existing objects were rendered by the old version.

use std::fmt::Write;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::reason::Reason;
use crate::time::after;
use contract::settings::Settings;
use observed::{Observed, ObservedDeployment, OperatorLease, OperatorPod, selects};

use super::fingerprint;

/// A leader whose last observed renewal is older than this counts as gone, whatever its Lease says.
/// OLM's Lease lasts 65 s.
const LONGEST_LEASE_SECONDS: u64 = 120;
/// Seconds for which the operator must have left its DaemonSets unchanged: the real controllers
/// rendered an edit of the spec within 2.8 s.
const QUIET_SECONDS: u64 = 5;
/// Seconds for which an operator that recently became the leader must have left its DaemonSets
/// unchanged. In ten chart upgrades with the real controllers, the driver's DaemonSet was rendered
/// 0.9 to 4.4 s after the new operator became the leader, and the last DaemonSet after 4.5 to 14.3
/// s.
const FRESH_QUIET_SECONDS: u64 = 15;
/// Age in seconds up to which a leader counts as new. A leader with another version than its
/// predecessor renders every DaemonSet again; one with little CPU rendered the driver's DaemonSet
/// only 22 s after it became the leader.
const FRESH_SECONDS: u64 = 60;

/// Returns the seconds for which the operator must have left its DaemonSets unchanged.
pub fn quiet_seconds(observed: &Observed) -> u64 {
    let fresh =
        observed.operator_lease.as_ref().is_some_and(|lease| lease.led_seconds < FRESH_SECONDS);
    if fresh { FRESH_QUIET_SECONDS } else { QUIET_SECONDS }
}

/// How long a process has been observing the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ObservationAge {
    /// Start of the observation.
    pub since: Timestamp,
    /// The time of the decision.
    pub now: Timestamp,
}

/// What the operator has rendered, from which specs, under which leader, and since when this has
/// been unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorActivity {
    mark: Arc<str>,
    /// Start of the observation.
    pub since: Timestamp,
    /// The leader, the time since which it leads by the hook's clock, and the rendered objects.
    leader: ObservedLeader,
}

/// The observations of one leader.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObservedLeader {
    holder: Arc<str>,
    /// Time by the hook's clock at which its age was first observed, minus that age.
    since: Timestamp,
    daemon_sets: Arc<str>,
    /// Whether a DaemonSet has changed since the leader was first observed.
    renders: bool,
}

impl ObservedLeader {
    fn seen(before: Option<&Self>, observed: &Observed, now: Timestamp) -> Self {
        let lease = observed.operator_lease.as_ref();
        let (holder, daemon_sets) = (holder(observed).into(), daemon_sets(observed).into());
        if let Some(before) = before.filter(|before| before.holder == holder) {
            let renders = before.renders || before.daemon_sets != daemon_sets;
            return Self { holder, since: before.since, daemon_sets, renders };
        }
        let age = SignedDuration::from_secs(
            lease.and_then(|lease| i64::try_from(lease.led_seconds).ok()).unwrap_or(0),
        );
        Self {
            holder,
            since: now.saturating_sub(age).unwrap_or(Timestamp::MIN),
            daemon_sets,
            renders: false,
        }
    }
}

impl OperatorActivity {
    /// Creates an activity of the current state that has been unchanged long enough.
    pub fn settled(observed: &Observed) -> Self {
        Self {
            mark: mark(observed).into(),
            since: Timestamp::MIN,
            leader: ObservedLeader::seen(None, observed, Timestamp::MIN),
        }
    }

    /// Returns whether the same leader leads.
    pub fn is_led_by(&self, observed: &Observed) -> bool {
        *self.leader.holder == *holder(observed)
    }

    /// Returns until when the leader is expected to render its DaemonSets, if the operator's
    /// version has changed and no DaemonSet has changed under this leader; `None` if it has
    /// rendered, or has led for long enough.
    pub fn expected_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self
            .leader
            .since
            .saturating_add(SignedDuration::from_secs(FRESH_SECONDS.cast_signed()))
            .unwrap_or(Timestamp::MAX);
        (!self.leader.renders && now < until).then_some(until)
    }

    /// Returns `before` if nothing has changed, otherwise the current state.
    #[must_use]
    pub fn updated(before: Option<&Self>, observed: &Observed, now: Timestamp) -> Self {
        let mark = mark(observed);
        let leader = ObservedLeader::seen(before.map(|before| &before.leader), observed, now);
        match before.filter(|before| *before.mark == *mark) {
            Some(before) => Self { leader, ..before.clone() },
            None => Self { mark: mark.into(), since: now, leader },
        }
    }
}

/// Returns a text of the leader, the specs and the rendered objects.
fn mark(observed: &Observed) -> String {
    format!("{} {}{}", holder(observed), fingerprint(observed), daemon_sets(observed))
}

/// Returns the leader; empty if there is none.
fn holder(observed: &Observed) -> &str {
    observed.operator_lease.as_ref().map(|lease| lease.holder.as_str()).unwrap_or_default()
}

/// Returns each DaemonSet's generation and hash. DaemonSets that need no pod are excluded: with
/// precompiled drivers, the operator deletes and creates the DaemonSets of kernels without nodes in
/// every pass.
fn daemon_sets(observed: &Observed) -> String {
    let mut mark = String::new();
    for daemon_set in observed.daemon_sets.iter().filter(|daemon_set| daemon_set.desired > 0) {
        let hash = daemon_set.applied_hash.as_deref().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(mark, " {}/{}/{hash}", daemon_set.uid, daemon_set.generation);
    }
    mark
}

/// Checks that a pod of the operator's newest ReplicaSet is the leader, and that a renewal of its
/// Lease has been observed. The Deployment must be rolled out: then every pod that is not being
/// deleted belongs to the newest ReplicaSet.
///
/// # Errors
/// [`Reason::OperatorNotLeading`], and [`Reason::OperatorNotSeen`] as long as no renewal could have
/// been observed.
pub fn operator_leads(
    observed: &Observed,
    settings: &Settings,
    looking: ObservationAge,
) -> Result<(), Reason> {
    let ObservationAge { since, now } = looking;
    let pods: Vec<&OperatorPod> = observed
        .operator
        .as_ref()
        .map(|operator| newest_pods(observed, operator))
        .unwrap_or_default();
    let lease = observed.operator_lease.as_ref().filter(|lease| !lease.holder.is_empty());
    let not_leading = |silent: bool| Reason::OperatorNotLeading {
        deployment: settings.operator_deployment().to_owned(),
        namespace: settings.operator_namespace.clone(),
        pod: pods.first().map(|pod| pod.name.clone()),
        holder: lease.map(|lease| lease.holder.clone()),
        silent,
    };
    let Some(lease) = lease else { return Err(not_leading(false)) };
    let holds = |pod: &&OperatorPod| {
        lease.holder.strip_prefix(&pod.name).is_some_and(|rest| rest.starts_with('_'))
    };
    if !pods.iter().any(holds) {
        return Err(not_leading(false));
    }
    // A restarted container has a new identity: the Lease still names the old one, and no pod
    // renews it.
    if now >= leader_ends_at(lease, since) {
        return Err(not_leading(true));
    }
    if lease.renewed.is_none() {
        return Err(Reason::OperatorNotSeen {
            deployment: settings.operator_deployment().to_owned(),
            namespace: settings.operator_namespace.clone(),
            holder: lease.holder.clone(),
            limit_seconds: valid_seconds(lease),
        });
    }
    Ok(())
}

/// Returns when the leader counts as gone if no renewal of its Lease is observed until then.
/// `since`: start of the observation.
pub fn leader_ends_at(lease: &OperatorLease, since: Timestamp) -> Timestamp {
    // The second is the time that a renewal needs to reach the hook.
    after(lease.renewed.unwrap_or(since), valid_seconds(lease) + 1)
}

/// Returns for how long a leader counts as present after a renewal of its Lease.
fn valid_seconds(lease: &OperatorLease) -> u64 {
    lease.duration_seconds.clamp(1, LONGEST_LEASE_SECONDS)
}

fn newest_pods<'a>(observed: &'a Observed, operator: &ObservedDeployment) -> Vec<&'a OperatorPod> {
    let is_of = |pod: &&OperatorPod| {
        !operator.selector.is_empty() && selects(&operator.selector, &pod.labels)
    };
    observed.operator_pods.iter().filter(is_of).filter(|pod| !pod.deleting && pod.ready).collect()
}
