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
use kube_io::times::{LastChange, NodeTimes};
use nvidia_upgrade::explain::ControllerWait;
use observed::ObservedNode;
use planner::drive_upgrade::record::{NodeRecordState, read};
use planner::node::DriverOperands;
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
}

impl WaitStartSources<'_> {
    fn traits(&self) -> &'static DriverTraits {
        self.settings.driver.traits()
    }

    /// Finds since when the node waits for this reason. `record`: the node's entry in the run
    /// record.
    pub(crate) fn find(
        &self,
        node: &ObservedNode,
        reason: &Reason,
        record: Option<&NodeRecord>,
    ) -> WaitStart {
        let known =
            record.filter(|record| is_same_kind(record, reason)).and_then(|record| record.since);
        self.written(node, reason).or_earlier(known)
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
            Reason::Upgrading(_) => WaitStart::from_timestamp(own()),
            Reason::DriverNotReady { .. } | Reason::DriverPodUnschedulable { .. } => {
                WaitStart::from_timestamp(
                    pod().and_then(|pod| pod.ready_since.or(Some(pod.created))),
                )
            }
            Reason::DriverOutOfDate { why: Some(why), .. }
            | Reason::UpgradeUnfinished { why: Some(why), .. } => self.vendors(node, why),
            Reason::UpgradeFailed { .. } | Reason::UpgradeUnfinished { .. } => {
                key(self.traits().state_label)
            }
            _ => WaitStart::default(),
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "for a node that the controller has started, the state label has the time"
    )]
    fn vendors(&self, node: &ObservedNode, why: &ControllerWait) -> WaitStart {
        let times = self.times.get(&node.name);
        let key = |key: &str| WaitStart::touched(times.and_then(|times| times.keys.get(key)));
        match why {
            ControllerWait::Skipped { label } => key(label),
            ControllerWait::Jobs { since: Some(since), .. } => {
                WaitStart::from_timestamp(Some(*since))
            }
            ControllerWait::Asleep { since, .. } => WaitStart::from_timestamp(*since),
            ControllerWait::Off
            | ControllerWait::SandboxWorkloads
            | ControllerWait::Blocked { .. }
            | ControllerWait::PassEnds { .. } => WaitStart::default(),
            _ => key(self.traits().state_label),
        }
    }
}

/// Returns whether the run record is about the same kind of reason.
fn is_same_kind(record: &NodeRecord, reason: &Reason) -> bool {
    record.reason.as_ref().is_some_and(|recorded| recorded.name == reason.name())
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
