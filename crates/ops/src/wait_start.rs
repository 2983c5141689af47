//! Finds since when a node waits. The engine measures from its own first observation. A command
//! that observes only now uses what is recorded: the node's own record, the run record, the object
//! that the reason is about, and who last changed it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::driver::{Driver, DriverTraits};
use contract::record::NodeRecord;
use contract::settings::Settings;
use kube_io::managed_field_times::{LastChange, NodeTimes};
use nvidia_upgrade::explain::ControllerWait;
use nvidia_upgrade::state::ControllerState;
use observed::{ObservedNode, ObservedPod};
use planner::drive_upgrade::record::{NodeRecordState, read};
use planner::node::DriverOperands;
use planner::progress::state;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

/// The start of a wait, and who caused it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WaitStart {
    /// When the wait started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The field manager that wrote the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl WaitStart {
    fn from_timestamp(at: Option<Timestamp>) -> Self {
        Self { at, by: None }
    }

    fn touched(touch: Option<&LastChange>) -> Self {
        touch.map_or_else(Self::default, |touch| Self {
            at: Some(touch.at),
            by: Some(touch.manager.clone()),
        })
    }

    /// Returns the earlier of two start times of the same wait.
    fn or_earlier(self, other: Option<Timestamp>) -> Self {
        Self { at: [self.at, other].into_iter().flatten().min(), by: self.by }
    }
}

/// The sources for the start of a wait.
pub(crate) struct WaitStartSources<'a> {
    /// The settings of the rollout.
    pub(crate) settings: &'a Settings,
    /// Who last changed which key of each node, and when.
    pub(crate) times: &'a BTreeMap<String, NodeTimes>,
    /// The pods of the driver.
    pub(crate) operands: &'a DriverOperands<'a>,
    /// Since when the hook has been assessing nodes in its current run; `None`: no hook is running.
    pub(crate) assessed_since: Option<Timestamp>,
}

impl WaitStartSources<'_> {
    fn traits(&self) -> &'static DriverTraits {
        self.settings.driver.traits()
    }

    /// Finds since when the node waits for this reason. `record`: the node's entry in the run
    /// record. `seen`: since when this process has seen the wait. If no object has the time, it is
    /// the earlier of when the hook and this process saw it first: a wait that a process has shown
    /// must not start later when the hook records it.
    pub(crate) fn find(
        &self,
        node: &ObservedNode,
        reason: &Reason,
        record: Option<&NodeRecord>,
        seen: Option<Timestamp>,
    ) -> WaitStart {
        let known = record.and_then(|record| recorded_since(record, reason));
        let written = self.written(node, reason);
        let seen = seen.filter(|_| written.at.is_none());
        written.or_earlier(known).or_earlier(seen)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the start of the others is not recorded")]
    fn written(&self, node: &ObservedNode, reason: &Reason) -> WaitStart {
        let times = self.times.get(&node.name);
        let key = |key: &str| WaitStart::touched(times.and_then(|times| times.keys.get(key)));
        let own = || match read(node, self.traits()) {
            NodeRecordState::Record(record) => Some(record.since),
            NodeRecordState::Nothing | NodeRecordState::Newer(_) | NodeRecordState::Broken => None,
        };
        let pod = || self.operands.driver_pod(node).map(|driver| driver.pod);
        match reason {
            Reason::NodeNotReady { since } => WaitStart::from_timestamp(*since),
            Reason::Skipped { label } => key(label),
            Reason::Upgrading(UpgradeReason::Paused { at, by, .. }) => {
                WaitStart { at: *at, by: Some(by.clone()) }
            }
            Reason::Upgrading(UpgradeReason::ForeignCordon) => {
                WaitStart::touched(times.and_then(|times| times.cordon.as_ref()))
            }
            Reason::Upgrading(
                UpgradeReason::Refused(_)
                | UpgradeReason::Soak { .. }
                | UpgradeReason::OutsideWindow { .. }
                | UpgradeReason::CanariesFirst { .. }
                | UpgradeReason::RampStep { .. }
                | UpgradeReason::StepSoak { .. },
            ) => WaitStart::from_timestamp(own().or_else(|| self.queued_since(node))),
            // The state that follows from the ready driver pod is not always written.
            Reason::Upgrading(UpgradeReason::Validating { .. }) => {
                WaitStart::from_timestamp(own().max(pod().and_then(|pod| pod.ready_since)))
            }
            Reason::Upgrading(_) => WaitStart::from_timestamp(own()),
            Reason::DriverNotReady { .. } | Reason::DriverPodUnschedulable { .. } => {
                let state = state(node, self.settings.driver);
                let state = ControllerState::from_label(state.as_deref());
                WaitStart::from_timestamp(pod().map(|pod| not_ready_since(pod, state)))
            }
            Reason::DriverOutOfDate { why: Some(why), .. }
            | Reason::UpgradeUnfinished { why: Some(why), .. } => self.vendors(node, why),
            Reason::UpgradeFailed { .. } | Reason::UpgradeUnfinished { .. } => {
                key(self.traits().state_label)
            }
            _ => WaitStart::default(),
        }
    }

    /// Returns since when a node has been waiting for its upgrade, whichever limit keeps it from
    /// it: since the run started, the last wait of the whole fleet ended, or the node joined or was
    /// free to start. The run record has no entry about such a node, as a large fleet has thousands
    /// of them.
    fn queued_since(&self, node: &ObservedNode) -> Option<Timestamp> {
        let times = self.times.get(&node.name);
        let freed = times.into_iter().flat_map(|times| {
            let skip = times.keys.get(self.traits().skip_label);
            skip.into_iter().chain(&times.cordon).map(|change| change.at)
        });
        self.assessed_since
            .map(|started| freed.chain([started, node.created]).max().unwrap_or(started))
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "for a node that the controller has started, the state label has the time"
    )]
    fn vendors(&self, node: &ObservedNode, why: &ControllerWait) -> WaitStart {
        let times = self.times.get(&node.name);
        let key = |key: &str| WaitStart::touched(times.and_then(|times| times.keys.get(key)));
        let in_state = |since| {
            let state = ControllerState::of_node(node, self.traits());
            controller_wait(state, key(self.traits().state_label), since)
        };
        match why {
            ControllerWait::Skipped { label } => key(label),
            ControllerWait::Jobs { since: Some(since), .. } => {
                WaitStart::from_timestamp(Some(*since))
            }
            ControllerWait::Asleep { since, .. } => in_state(*since),
            ControllerWait::Off
            | ControllerWait::SandboxWorkloads
            | ControllerWait::Blocked { .. }
            | ControllerWait::PassEnds { .. } => in_state(None),
            _ => key(self.traits().state_label),
        }
    }
}

/// Returns since when a node in this state waits for the controller, which has done nothing since
/// `since`, if that is known. A node that the controller has found out of date waits since it was
/// labeled, however often the controller slept. The label of any other node is that of the upgrade
/// before.
fn controller_wait(
    state: ControllerState,
    label: WaitStart,
    since: Option<Timestamp>,
) -> WaitStart {
    if matches!(state, ControllerState::Unknown | ControllerState::Done) {
        WaitStart::from_timestamp(since)
    } else {
        label.or_earlier(since)
    }
}

/// Returns since when the driver pod of a node in this state has not been ready. The kubelet
/// reports the Ready condition only some time after the pod was created. In the state that waits
/// for the new pod, this pod has not been ready before.
fn not_ready_since(pod: &ObservedPod, state: ControllerState) -> Timestamp {
    let lost_at = pod.ready_since.filter(|_| state != ControllerState::PodRestartRequired);
    lost_at.unwrap_or(pod.created)
}

/// Returns since when the node waits for this reason by the run record, if the record is about the
/// same kind of reason. A wait that depends on the upgrade state starts again with each state.
fn recorded_since(record: &NodeRecord, reason: &Reason) -> Option<Timestamp> {
    let is_same = record.reason.as_ref().is_some_and(|recorded| recorded.name == reason.name());
    let since = record.since.filter(|_| is_same)?;
    match (reason.upgrade_state(), record.steps.last()) {
        (Some(state), Some(step)) => (step.state == state).then(|| since.max(step.at)),
        (None, _) | (_, None) => Some(since),
    }
}

/// Returns whether a key of a node is the state of a driver's upgrade or a request about one.
pub(crate) fn is_telling(key: &str) -> bool {
    Driver::ALL.iter().map(|driver| driver.traits()).any(|traits| {
        [
            traits.state_label,
            traits.skip_label,
            traits.own_state_label,
            traits.own_record,
            traits.hold,
            traits.requested,
        ]
        .contains(&key)
    })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use contract::record::{RecordedReason, RecordedStep};
    use observed::Observed;

    fn at(second: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
    }

    /// A node that was labeled at 15:36:43 waited since 15:36:55, when the controller had fallen asleep.
    #[test]
    fn sleep_of_controller_does_not_restart_wait() {
        let label = || WaitStart { at: Some(at(43)), by: Some("gpu-operator".into()) };
        for (state, since, start) in [
            (ControllerState::UpgradeRequired, Some(at(55)), Some(at(43))),
            (ControllerState::UpgradeRequired, None, Some(at(43))),
            (ControllerState::Done, Some(at(55)), Some(at(55))),
            (ControllerState::Done, None, None),
            (ControllerState::Unknown, Some(at(55)), Some(at(55))),
        ] {
            assert_eq!(controller_wait(state, label(), since).at, start, "{state:?}, {since:?}");
        }
    }

    /// A wait that a command had shown for seconds started later once the hook recorded it.
    #[test]
    fn start_of_a_wait_does_not_slide() {
        let (settings, times) = (Settings::default(), BTreeMap::new());
        let observed = Observed::default();
        let operands = DriverOperands::new(&observed, settings.driver);
        let sources = WaitStartSources {
            settings: &settings,
            times: &times,
            operands: &operands,
            assessed_since: None,
        };
        let record = |second| NodeRecord {
            reason: Some(RecordedReason::new("DriverPodMissing", "")),
            since: Some(at(second)),
            ..NodeRecord::default()
        };
        let not_ready = Reason::NodeNotReady { since: Some(at(9)) };
        let missing = Reason::DriverPodMissing;
        for (case, reason, recorded, seen, start) in [
            ("not recorded", &missing, None, Some(20), Some(20)),
            ("recorded later than shown", &missing, Some(30), Some(20), Some(20)),
            ("recorded earlier than shown", &missing, Some(10), Some(20), Some(10)),
            ("recorded, not shown", &missing, Some(30), None, Some(30)),
            ("an object has the time", &not_ready, None, Some(5), Some(9)),
            ("unknown", &missing, None, None, None),
        ] {
            let record = recorded.map(record);
            let found =
                sources.find(&ObservedNode::default(), reason, record.as_ref(), seen.map(at));
            assert_eq!(found.at, start.map(at), "{case}");
        }
    }

    /// A node that was being drained waited since it had been cordoned.
    #[test]
    fn wait_starts_again_with_each_upgrade_state() {
        let record = |states: &[(&str, i64)]| NodeRecord {
            reason: Some(RecordedReason::new("DriverOutOfDate", "")),
            since: Some(at(10)),
            steps: states
                .iter()
                .map(|(state, second)| RecordedStep {
                    state: (*state).to_owned(),
                    at: at(*second),
                    or_earlier: false,
                })
                .collect(),
            ..NodeRecord::default()
        };
        let out_of_date =
            || Reason::DriverOutOfDate { state: Some("drain-required".to_owned()), why: None };
        let steps = [("cordon-required", 20), ("drain-required", 30)];
        for (case, record, reason, since) in [
            ("not started", record(&[]), out_of_date(), Some(at(10))),
            ("the same state", record(&steps), out_of_date(), Some(at(30))),
            ("the record is older", record(&steps[..1]), out_of_date(), None),
            ("another reason", record(&steps), Reason::DriverPodMissing, None),
        ] {
            assert_eq!(recorded_since(&record, &reason), since, "{case}");
        }
    }

    /// A node waited for its driver since 15:14:22, and a moment later since 15:14:47: its kubelet had reported the pod for the first time.
    #[test]
    fn first_report_of_pod_does_not_restart_wait() {
        let pod =
            |ready_since| ObservedPod { created: at(22), ready_since, ..ObservedPod::default() };
        for (case, ready_since, state, since) in [
            ("not reported", None, ControllerState::PodRestartRequired, 22),
            ("reported", Some(at(47)), ControllerState::PodRestartRequired, 22),
            ("ready before, now broken", Some(at(99)), ControllerState::Done, 99),
            ("not reported, on a new node", None, ControllerState::Unknown, 22),
        ] {
            assert_eq!(not_ready_since(&pod(ready_since), state), at(since), "{case}");
        }
    }
}
