//! Has the newest operator acted on the newest spec? Its Deployment is available, and says `ready`, long before its newest pod leads: until the
//! Lease of the old leader has expired nobody reconciles, and what is there was rendered by the old program.

use std::fmt::Write;

use jiff::{SignedDuration, Timestamp};

use crate::reason::Reason;
use contract::settings::Settings;
use observed::{Observed, ObservedDeployment, OperatorPod, selects};

use super::fingerprint;

/// A leader that was not seen to renew for longer is taken for gone, whatever its Lease says. OLM's Lease lasts 65 s.
const LONGEST_LEASE_SECONDS: u64 = 120;
/// For so long the operator must have left its DaemonSets alone before anything is built upon them: an edit of the spec was rendered within
/// 2.8 s on the real controllers.
const QUIET_SECONDS: u64 = 5;
/// The same of an operator that has only just begun to lead. In ten chart upgrades on the real controllers the driver's DaemonSet was rendered
/// 0.9 to 4.4 s after the new operator led, the last one after 4.5 to 14.3 s.
const FRESH_QUIET_SECONDS: u64 = 15;
/// Up to this age a leader is fresh. A leader of another version than its predecessor renders every DaemonSet again; one that had little CPU rendered
/// the driver's only 22 s after it led.
const FRESH_SECONDS: u64 = 60;

/// Seconds for which the operator must have left its DaemonSets alone.
pub fn quiet_seconds(observed: &Observed) -> u64 {
    let fresh =
        observed.operator_lease.as_ref().is_some_and(|lease| lease.led_seconds < FRESH_SECONDS);
    if fresh { FRESH_QUIET_SECONDS } else { QUIET_SECONDS }
}

/// For how long a process has been looking.
#[derive(Clone, Copy, Debug)]
pub struct ObservationAge {
    /// Since when.
    pub since: Timestamp,
    /// The time of the decision.
    pub now: Timestamp,
}

/// What the operator has rendered, for whom, and under which leader; and since when we have seen it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorActivity {
    mark: String,
    /// Since when.
    pub since: Timestamp,
    /// Who leads, since when by our clock, and what is rendered.
    leader: ObservedLeader,
}

/// What was seen of one leader.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ObservedLeader {
    holder: String,
    /// Our clock, when its age was first seen, minus that age.
    since: Timestamp,
    daemon_sets: String,
    /// A DaemonSet has changed since the leader was first seen.
    renders: bool,
}

impl ObservedLeader {
    fn seen(before: Option<&Self>, observed: &Observed, now: Timestamp) -> Self {
        let lease = observed.operator_lease.as_ref();
        let (holder, daemon_sets) =
            (lease.map(|lease| lease.holder.clone()).unwrap_or_default(), daemon_sets(observed));
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
    /// What is observed now, unchanged for so long that nothing is expected of the operator any more.
    pub fn settled(observed: &Observed) -> Self {
        Self {
            mark: mark(observed),
            since: Timestamp::MIN,
            leader: ObservedLeader::seen(None, observed, Timestamp::MIN),
        }
    }

    /// Until when the leader is expected to render its DaemonSets, where the operator's version has changed and none has changed under this
    /// leader. `None`: it has rendered, or has led for long enough.
    pub fn expected_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self
            .leader
            .since
            .saturating_add(SignedDuration::from_secs(FRESH_SECONDS.cast_signed()))
            .unwrap_or(Timestamp::MAX);
        (!self.leader.renders && now < until).then_some(until)
    }

    /// The same if nothing has changed, otherwise what is observed now.
    #[must_use]
    pub fn updated(before: Option<&Self>, observed: &Observed, now: Timestamp) -> Self {
        let mark = mark(observed);
        let leader = ObservedLeader::seen(before.map(|before| &before.leader), observed, now);
        match before.filter(|before| before.mark == mark) {
            Some(before) => Self { leader, ..before.clone() },
            None => Self { mark, since: now, leader },
        }
    }
}

/// The leader, the specs, and what is rendered.
fn mark(observed: &Observed) -> String {
    let holder =
        observed.operator_lease.as_ref().map(|lease| lease.holder.as_str()).unwrap_or_default();
    format!("{holder} {}{}", fingerprint(observed), daemon_sets(observed))
}

/// Each DaemonSet's generation and hash. DaemonSets that want no pod are left out: with precompiled drivers the operator deletes and makes those of
/// kernels without nodes in every pass.
fn daemon_sets(observed: &Observed) -> String {
    let mut mark = String::new();
    for daemon_set in observed.daemon_sets.iter().filter(|daemon_set| daemon_set.desired > 0) {
        let hash = daemon_set.applied_hash.as_deref().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = write!(mark, " {}/{}/{hash}", daemon_set.uid, daemon_set.generation);
    }
    mark
}

/// A pod of the operator's newest ReplicaSet leads, and was seen to renew its Lease. To be asked when the Deployment is rolled out: then every
/// pod that is not being deleted is of the newest ReplicaSet.
///
/// # Errors
/// [`Reason::OperatorNotLeading`], and [`Reason::OperatorNotSeen`] while nothing is known of its renewals.
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
    let limit = SignedDuration::from_secs(
        i64::try_from(lease.duration_seconds.clamp(1, LONGEST_LEASE_SECONDS)).unwrap_or(i64::MAX),
    );
    if lease.renewed.is_none() && now.duration_since(since) <= limit {
        return Err(Reason::OperatorNotSeen {
            deployment: settings.operator_deployment().to_owned(),
            holder: lease.holder.clone(),
        });
    }
    // A container that was restarted draws a new identity: the Lease still names the old one, and nobody renews it.
    if lease.renewed.is_none_or(|renewed| now.duration_since(renewed) > limit) {
        return Err(not_leading(true));
    }
    Ok(())
}

fn newest_pods<'a>(observed: &'a Observed, operator: &ObservedDeployment) -> Vec<&'a OperatorPod> {
    let is_of = |pod: &&OperatorPod| {
        !operator.selector.is_empty() && selects(&operator.selector, &pod.labels)
    };
    observed.operator_pods.iter().filter(is_of).filter(|pod| !pod.deleting && pod.ready).collect()
}
