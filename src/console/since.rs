//! Since when a node waits. The engine measures from its own first look; whoever looks only now asks what is written: the node's own record, the
//! run record, the object that the reason is about, and who last changed it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::times::{NodeTimes, Touch};
use crate::contract::driver::{Driver, Traits};
use crate::contract::record::NodeRecord;
use crate::contract::settings::Settings;
use crate::rollout::node::Operands;
use crate::rollout::observed::{Node, Observed};
use crate::rollout::reason::Reason;
use crate::rollout::reason::upgrade::Upgrading;
use crate::rollout::upgrade::record::{Found, read};
use crate::rollout::vendor::explain::Wait;

/// Since when, and through whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Since {
    /// The time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Who wrote what it is about, by field manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Since {
    fn at(at: Option<Timestamp>) -> Self {
        Self { at, by: None }
    }

    fn touched(touch: Option<&Touch>) -> Self {
        touch.map_or_else(Self::default, |touch| Self { at: Some(touch.at), by: Some(touch.manager.clone()) })
    }

    /// The earlier one of two things that are said of the same.
    fn or_earlier(self, other: Option<Timestamp>) -> Self {
        Self { at: [self.at, other].into_iter().flatten().min(), by: self.by }
    }
}

/// What tells since when.
pub struct Sources<'a> {
    /// The cluster.
    pub observed: &'a Observed,
    /// What the rollout goes by.
    pub settings: &'a Settings,
    /// Who last set what on nodes.
    pub times: &'a BTreeMap<String, NodeTimes>,
    /// The pods of the driver.
    pub operands: &'a Operands<'a>,
}

impl Sources<'_> {
    fn traits(&self) -> &'static Traits {
        self.settings.driver.traits()
    }

    /// Since when the node waits for this reason. `record`: what the run record has of it.
    pub fn of(&self, node: &Node, reason: &Reason, record: Option<&NodeRecord>) -> Since {
        let known = record.filter(|record| is_same_kind(record, reason)).and_then(|record| record.since);
        self.written(node, reason).or_earlier(known)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing is written down of the others")]
    fn written(&self, node: &Node, reason: &Reason) -> Since {
        let times = self.times.get(&node.name);
        let key = |key: &str| Since::touched(times.and_then(|times| times.keys.get(key)));
        let own = || match read(node, self.traits()) {
            Found::Record(record) => Some(record.since),
            Found::Nothing | Found::Newer(_) | Found::Broken => None,
        };
        let pod = || self.operands.driver_pod(node).map(|driver| driver.pod);
        match reason {
            Reason::NodeNotReady { since } => Since::at(*since),
            Reason::Skipped { label } => key(label),
            Reason::Upgrading(Upgrading::Paused { at, by, .. }) => Since { at: Some(*at), by: Some(by.clone()) },
            Reason::Upgrading(Upgrading::ForeignCordon) => Since::touched(times.and_then(|times| times.cordon.as_ref())),
            Reason::Upgrading(_) => Since::at(own()),
            Reason::DriverNotReady { .. } | Reason::DriverPodUnschedulable { .. } => {
                Since::at(pod().and_then(|pod| pod.ready_since.or(Some(pod.created))))
            }
            Reason::DriverOutOfDate { why: Some(why), .. } | Reason::UpgradeUnfinished { why: Some(why), .. } => self.vendors(node, why),
            Reason::UpgradeFailed { .. } | Reason::UpgradeUnfinished { .. } => key(self.traits().state_label),
            _ => Since::default(),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "of a node that the controller has begun with, its state tells")]
    fn vendors(&self, node: &Node, why: &Wait) -> Since {
        let times = self.times.get(&node.name);
        let key = |key: &str| Since::touched(times.and_then(|times| times.keys.get(key)));
        match why {
            Wait::Skipped { label } => key(label),
            Wait::Jobs { since: Some(since), .. } => Since::at(Some(*since)),
            Wait::Asleep { since, .. } => Since::at(*since),
            Wait::Off | Wait::SandboxWorkloads | Wait::Blocked { .. } | Wait::PassEnds { .. } => Since::default(),
            _ => key(self.traits().state_label),
        }
    }
}

/// Whether the run record is about the same kind of reason.
fn is_same_kind(record: &NodeRecord, reason: &Reason) -> bool {
    record.reason.as_ref().is_some_and(|recorded| recorded.name == reason.name())
}

/// Which keys of nodes tell something: the drivers' states and wishes.
pub fn is_telling(key: &str) -> bool {
    Driver::ALL.iter().map(|driver| driver.traits()).any(|traits| {
        [traits.state_label, traits.skip_label, traits.own_state_label, traits.own_record, traits.hold, traits.requested].contains(&key)
    })
}
