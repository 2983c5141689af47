//! Nodes that a hook holds: for which deployment, since when, and who releases them. Holds of
//! pauses are not included, because `status` lists pauses, unless the pause is over.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::settings::Mode;
use kube_io::releases::ReleaseDeployer;
use observed::ObservedNode;
use observed::pause::find_pause;
use planner::hold::HoldPurpose;

use super::observe::RolloutSnapshot;
use super::remedy::Remedy;
use super::time::format_duration;

/// The hold of a hook on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldStatus {
    /// The purpose: `operator-upgrade`, or `steer` until the hook starts the node's upgrade.
    pub purpose: &'static str,
    /// `namespace/name` of the hook release that holds the node, if the hold contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The trigger digest of the deployment for which the node is held, if the hold contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    /// The old and the new version of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// When the hold was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// How many characters of a trigger digest are printed: enough to distinguish deployments.
const DIGEST: usize = 12;

impl HoldStatus {
    /// Returns the hold on a node, or `None` if no hook holds it.
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

    /// Describes who holds the node and why, without the time.
    pub fn text(&self) -> String {
        self.text_with("")
    }

    /// Describes who holds the node, for how long, if that is known, and why. `since`: since when.
    pub fn text_with_age(&self, since: Option<Timestamp>, now: Timestamp) -> String {
        let age = since
            .map(|since| format!(" for {} so far", format_duration(now.duration_since(since))));
        self.text_with(&age.unwrap_or_default())
    }

    fn text_with(&self, age: &str) -> String {
        let (Some(release), Some(operator)) = (&self.release, &self.operator) else {
            return format!(
                "held{age} by the hook (mode `steer`) until the hook starts the node's upgrade"
            );
        };
        let deployment: String =
            self.deployment.iter().flat_map(|digest| digest.chars()).take(DIGEST).collect();
        format!(
            "held{age} by release {release} (deploy ID {deployment}) while the operator is upgraded {operator}"
        )
    }

    /// Returns the remedy for nodes with the hold of a pause that is over.
    pub(crate) fn left_by_pause() -> Remedy {
        Remedy::words("release the nodes: the pause that held them is over")
            .run("gpu-rollout resume")
    }

    /// Returns the remedy if no hook is running. `deployer`: who deployed the hook's release, if that
    /// is known.
    pub fn remedy(deployer: Option<&ReleaseDeployer>) -> Remedy {
        let (deploying, command) = match deployer {
            None => (
                "the bundle is still being deployed (in Flux, in Argo CD, or in a terminal or CI job)",
                None,
            ),
            Some(ReleaseDeployer::Flux { .. }) => {
                ("Flux is still deploying", Some("flux get helmreleases -A"))
            }
            Some(ReleaseDeployer::ArgoCd { .. }) => {
                ("Argo CD is still deploying", Some("argocd app list"))
            }
            Some(ReleaseDeployer::Helm) => {
                ("the bundle is still being deployed (in a terminal or CI job)", None)
            }
        };
        let deploy = match deployer {
            Some(ReleaseDeployer::Flux { namespace, .. }) => format!(
                "deploy the release again (flux reconcile helmrelease RELEASE -n {namespace} --force); those that depend on it follow"
            ),
            Some(ReleaseDeployer::ArgoCd { .. } | ReleaseDeployer::Helm) | None => {
                "deploy the whole bundle again".to_owned()
            }
        };
        let remedy = Remedy::words(format!(
            "find out whether {deploying}. If so, wait: the last hook frees the nodes. If a Helm release has failed, repair the cause, and {deploy}. Only if you give up this deployment, run gpu-rollout abort: it ends all rollouts and changes no driver, but NVIDIA's controller may then upgrade the held nodes",
        ));
        match command {
            Some(command) => remedy.inspect(command),
            None => remedy,
        }
    }
}

/// Returns whether a pause has held the node and is over, and no hook is running that releases it:
/// in mode `observe`, none does.
pub(crate) fn is_left_by_pause(snapshot: &RolloutSnapshot, node: &ObservedNode) -> bool {
    let is_released = is_attended(snapshot) && snapshot.settings.mode != Mode::Observe;
    HoldPurpose::from_node(node, snapshot.settings.driver) == Some(HoldPurpose::Pause)
        && find_pause(&snapshot.observed, node, snapshot.now).is_none()
        && !is_released
}

/// Returns whether a hook or `gpu-rollout abort` is running: it may release nodes, hold more, or
/// uncordon them.
pub(crate) fn is_attended(snapshot: &RolloutSnapshot) -> bool {
    let holds_lease = snapshot
        .holder
        .as_ref()
        .is_some_and(|holder| holder.until.is_none_or(|until| until > snapshot.now));
    snapshot.phase().has_job() || holds_lease
}
