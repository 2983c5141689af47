//! Nodes that a hook holds: for which deployment, since when, and who releases them. The holds of pauses are not among them: `status` names pauses.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use observed::ObservedNode;
use planner::hold::HoldPurpose;

use super::observe::RolloutSnapshot;
use super::remedy::Remedy;

/// The hold of a hook on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldStatus {
    /// What for: `operator-upgrade`, or `steer` until the node is started.
    pub purpose: &'static str,
    /// `namespace/name` of the hook release that holds it, where the hold says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The trigger digest of the deployment that it is held for, where the hold says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    /// From which version to which the operator is upgraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// How much of a digest tells deployments apart.
const DIGEST: usize = 12;

impl HoldStatus {
    /// The hold on a node; `None`: no hook holds it.
    pub(crate) fn find(snapshot: &RolloutSnapshot, node: &ObservedNode) -> Option<Self> {
        let driver = snapshot.settings.driver;
        let written = || {
            snapshot
                .times
                .get(&node.name)
                .and_then(|times| times.keys.get(driver.traits().hold))
                .map(|touch| touch.at)
        };
        match HoldPurpose::from_node(node, driver)? {
            HoldPurpose::Pause => None,
            HoldPurpose::Steer => Some(Self {
                purpose: "steer",
                release: None,
                deployment: None,
                operator: None,
                since: written(),
            }),
            HoldPurpose::OperatorUpgrade(hold) => Some(Self {
                purpose: "operator-upgrade",
                operator: Some(hold.change()),
                release: Some(hold.release),
                deployment: Some(hold.digest),
                since: Some(hold.at),
            }),
        }
    }

    /// Who holds it for what, without the time.
    pub fn text(&self) -> String {
        let (Some(release), Some(operator)) = (&self.release, &self.operator) else {
            return "held by the hook (mode `steer`) until the node is started".to_owned();
        };
        let deployment: String =
            self.deployment.iter().flat_map(|digest| digest.chars()).take(DIGEST).collect();
        format!(
            "held by release {release} (deployment {deployment}) while the operator is upgraded {operator}"
        )
    }

    /// What to do where no hook is at work.
    pub(crate) fn remedy() -> Remedy {
        Remedy::words("deploy the bundle again: the hook after the operator's release releases the nodes; to release them without a deployment, abort it")
            .run("gpu-rollout abort --yes")
    }
}

/// Whether a hook is at work that may release nodes, or hold more.
pub(crate) fn is_attended(snapshot: &RolloutSnapshot) -> bool {
    let holds_lease = snapshot
        .holder
        .as_ref()
        .is_some_and(|holder| holder.until.is_none_or(|until| until > snapshot.now));
    snapshot.phase().has_job() || holds_lease
}
