//! Remedies for blocking conditions: advice, and commands that can be copied unchanged.

use schemars::JsonSchema;
use serde::Serialize;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::driver::Driver;
use contract::settings::Settings;
use nvidia_upgrade::explain::{ControllerWait, SlotHolder};
use planner::drive_upgrade::cause::FailureCause;
use planner::drive_upgrade::start_limits::StartRefusal;
use planner::pods::listed;
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

/// The maximum number of other nodes for which a remedy shows commands.
const SHOWN: usize = 3;

/// What to do about a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remedy {
    /// The advice, for people.
    pub text: String,
    /// Commands that show more and change nothing.
    #[serde(rename = "look", skip_serializing_if = "Vec::is_empty")]
    pub inspect: Vec<String>,
    /// Commands that resolve the problem, in the order in which to run them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// Commands to run after the node is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<String>,
}

impl Remedy {
    /// Creates a remedy without commands.
    pub fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Adds words to the end of the advice.
    #[must_use]
    fn more_words(mut self, words: &str) -> Self {
        self.text.push_str(words);
        self
    }

    /// Adds a command that shows more.
    #[must_use]
    pub fn inspect(mut self, command: impl Into<String>) -> Self {
        self.inspect.push(command.into());
        self
    }

    /// Adds a command that resolves the problem.
    #[must_use]
    pub fn run(mut self, command: impl Into<String>) -> Self {
        self.run.push(command.into());
        self
    }

    /// Adds a command to run after the node is done.
    #[must_use]
    pub fn later(mut self, command: impl Into<String>) -> Self {
        self.later.push(command.into());
        self
    }
}

/// Facts that a remedy needs in addition to the reason.
#[derive(Clone, Copy, Debug)]
pub struct RemedyContext<'a> {
    /// The node; `None`: the whole fleet.
    pub node: Option<&'a str>,
    /// The node's driver pod.
    pub driver_pod: Option<&'a str>,
    /// Namespaces and names of the node's DRA plugin pods.
    pub plugin_pods: &'a [(&'a str, &'a str)],
    /// The settings of the rollout.
    pub settings: &'a Settings,
    /// Whether the rollout has halted, and no user has ended the halt.
    pub is_halted: bool,
    /// Whether a pod of the hook watches the rollout, or will soon.
    pub has_job: bool,
}

impl RemedyContext<'_> {
    fn node(&self) -> &str {
        self.node.unwrap_or_default()
    }

    fn logs(&self) -> Option<String> {
        let container = self.settings.driver.traits().container;
        let container =
            if container.is_empty() { String::new() } else { format!(" -c {container}") };
        Some(format!(
            "kubectl logs -n {} {}{container}",
            self.settings.operator_namespace, self.driver_pod?
        ))
    }

    /// Returns the command for the operator's log; `None`: the driver has no operator.
    fn operator_logs(&self) -> Option<String> {
        let settings = self.settings;
        settings.driver.has_operator().then(|| {
            format!(
                "kubectl logs -n {} deployment/{} --tail=50",
                settings.operator_namespace,
                settings.operator_deployment()
            )
        })
    }

    fn with_logs(&self, remedy: Remedy) -> Remedy {
        match self.logs() {
            Some(command) => remedy.inspect(command),
            None => remedy.inspect(format!(
                "kubectl get pods -n {} --field-selector spec.nodeName={}",
                self.settings.operator_namespace,
                self.node()
            )),
        }
    }

    /// Adds the command that retries the node. If no hook is running, the retry also needs a new
    /// deployment. A halted rollout also needs the end of its halt.
    fn with_retry(&self, remedy: Remedy) -> Remedy {
        let remedy = remedy.run(format!("gpu-rollout retry --yes {}", self.node()));
        match (self.is_halted, self.has_job) {
            (true, _) => remedy
                .more_words(". The rollout has halted: to continue, also run gpu-rollout resume, and deploy the bundle again")
                .run("gpu-rollout resume"),
            (false, false) => remedy.more_words(", and deploy the bundle again"),
            (false, true) => remedy,
        }
    }

    fn why(holder: &str) -> String {
        format!("gpu-rollout why {holder}")
    }
}

/// Returns the remedy for a reason.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the table of reasons has advice for the others"
)]
pub fn remedy_for(reason: &Reason, about: RemedyContext<'_>) -> Remedy {
    let (node, driver) = (about.node(), about.settings.driver);
    let plain = Remedy::words(reason.advice(driver));
    match reason {
        Reason::NodeNotReady { .. } => {
            Remedy::words("repair the node; only if the machine will not come back, delete the node: the rollout continues without it")
                .inspect(format!("kubectl describe node {node}"))
                .run(format!("kubectl delete node {node}"))
        }
        Reason::Skipped { label } => plain.run(format!("kubectl label node {node} {label}-")),
        Reason::UpgradeFailed { trouble } => {
            let remedy = Remedy::words(retry_by(driver, trouble.is_some()));
            let remedy = match (trouble, about.operator_logs()) {
                (None, Some(command)) => remedy.inspect(command),
                _ => about.with_logs(remedy),
            };
            remedy.run(format!("gpu-rollout retry --yes {node}"))
        }
        Reason::DriverNotReady { trouble: None, restarts: 0, .. } => about.with_logs(plain),
        Reason::DriverNotReady { .. } => about.with_logs(Remedy::words(
            "find out why the driver does not start; the node continues as soon as its driver starts, or when you deploy a driver that starts (docs/how-to/bad-driver.md)",
        )),
        Reason::DriverOutOfDate { why: Some(wait), .. } | Reason::UpgradeUnfinished { why: Some(wait), .. } => vendors(wait, about),
        Reason::PluginStale { .. } => {
            about.plugin_pods.iter().fold(plain, |remedy, (namespace, pod)| remedy.run(format!("kubectl delete pod -n {namespace} {pod}")))
        }
        Reason::DriverPodUnschedulable { .. } | Reason::DriverPodMissing => {
            plain.inspect(format!("kubectl describe daemonset -n {}", about.settings.operator_namespace))
        }
        Reason::OperatorNotReady { deployment, namespace, replicas: 0, .. } if driver.has_operator() => {
            plain.run(format!("kubectl scale -n {namespace} deployment/{deployment} --replicas=1"))
        }
        Reason::OperatorNotReady { deployment, namespace, .. } => plain
            .inspect(format!("kubectl describe deployment -n {namespace} {deployment}"))
            .inspect(format!("kubectl get pods -n {namespace}")),
        Reason::Upgrading(upgrading) => ours(upgrading, about, plain),
        _ if about.node.is_none() => match about.operator_logs() {
            Some(command) => plain.inspect(command),
            None => plain,
        },
        _ => plain,
    }
}

/// Returns the advice to retry a node whose upgrade NVIDIA's controller performs. `has_trouble`:
/// whether the driver pod has a problem.
fn retry_by(driver: Driver, has_trouble: bool) -> String {
    let operator = driver.traits().operator;
    let cause = if has_trouble {
        "remove the cause of the failure"
    } else {
        "the driver pod has no problem, so read in the operator's log why the upgrade failed (pods that were not evicted, a drain, a validation), and remove the cause"
    };
    format!("{cause}; only then retry the node: the {operator} upgrades it again")
}

/// Returns the remedy for a reason of an upgrade that the hook performs or steers.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the table of reasons has advice for the others"
)]
fn ours(reason: &UpgradeReason, about: RemedyContext<'_>, plain: Remedy) -> Remedy {
    let node = about.node();
    match reason {
        // Another user may need the pause, so the command asks. If there are several, it lists them.
        UpgradeReason::Paused { until, is_late, .. } if until.is_none() || *is_late => {
            plain.run("gpu-rollout resume")
        }
        UpgradeReason::DriverComing => {
            plain.inspect(format!("kubectl describe daemonset -n {}", about.settings.operator_namespace))
        }
        UpgradeReason::ForeignCordon => plain.run(format!("kubectl uncordon {node}")),
        UpgradeReason::Accepting { trouble: Some(_), .. } => Remedy::words("before the time in the reason, repair the problem that it names, such as a missing image or pull secret; the test then continues by itself within a few minutes. After that time, the node has failed, and only gpu-rollout retry has it tested again")
            .inspect(format!("kubectl describe pods -n {ACCEPTANCE_NAMESPACE}")),
        UpgradeReason::Failed { cause, .. } if cause.is_before_restart() => {
            about.with_retry(Remedy::words("remove the cause of the failure, then retry the node"))
        }
        UpgradeReason::NotAccepted { .. } => about.with_retry(
            Remedy::words("the node failed its test with the old driver, so the new one is not the cause: repair the node, then retry it")
                .inspect(RemedyContext::why(node)),
        ),
        UpgradeReason::Failed { cause: FailureCause::AcceptanceFailed, .. } => about.with_retry(
            Remedy::words("find out from the result of the test why it failed. If the driver is the cause, go back to the previous one (docs/how-to/bad-driver.md). If the node or the test is the cause, repair the node or correct the test in the recipe, then retry the node")
                .inspect(RemedyContext::why(node)),
        ),
        UpgradeReason::Failed { cause: FailureCause::TerminationTimeout, .. } => about.with_retry(
            Remedy::words("find out what keeps the old driver pod (its grace period, its finalizers or the kubelet of the node), remove that, then retry the node")
                .inspect(RemedyContext::why(node)),
        ),
        UpgradeReason::Failed { .. } => about.with_retry(about.with_logs(Remedy::words(
            "read the driver's log to find out why it does not start, repair that, then retry the node",
        ))),
        UpgradeReason::Retry { .. } => about.with_logs(plain),
        UpgradeReason::FailureBudget { failed, .. } => {
            failed.iter().take(SHOWN).fold(plain, |remedy, holder| remedy.inspect(RemedyContext::why(holder)))
        }
        UpgradeReason::Refused(
            StartRefusal::Slots { holders, .. } | StartRefusal::Unavailable { holders, .. } | StartRefusal::Group { holders, .. },
        ) => holders.iter().take(SHOWN).fold(plain, |remedy, holder| remedy.inspect(RemedyContext::why(holder))),
        UpgradeReason::Maintenance { .. } => plain.inspect("kubectl get nodemaintenances -A"),
        _ => plain,
    }
}

/// Returns the remedy for what NVIDIA's controller waits for.
#[expect(clippy::wildcard_enum_match_arm, reason = "the table of waits has advice for the others")]
fn vendors(wait: &ControllerWait, about: RemedyContext<'_>) -> Remedy {
    let (node, settings) = (about.node(), about.settings);
    let plain = Remedy::words(wait.advice());
    match wait {
        ControllerWait::Off => match settings.driver {
            Driver::Gpu => plain.run(format!(
                "kubectl patch clusterpolicy {} --type merge -p '{{\"spec\":{{\"driver\":{{\"upgradePolicy\":{{\"autoUpgrade\":true}}}}}}}}'",
                settings.cluster_policy
            )),
            Driver::Ofed | Driver::DaemonSet => plain,
        },
        ControllerWait::Skipped { label } => plain.run(format!("kubectl label node {node} {label}-")),
        ControllerWait::Parallel { holders, .. } | ControllerWait::Unavailable { holders, .. } => in_the_way(holders, plain),
        ControllerWait::FailedBefore => {
            Remedy::words(retry_by(settings.driver, true)).run(format!("gpu-rollout retry --yes {node}"))
        }
        ControllerWait::UnknownState { .. } => plain.run(format!("gpu-rollout retry --yes {node}")),
        ControllerWait::FailedDriver { .. } | ControllerWait::DriverStarting { .. } => about.with_logs(plain),
        ControllerWait::Validating { pod, .. } => plain.inspect(format!("kubectl logs -n {} {pod} --all-containers", settings.operator_namespace)),
        _ => plain,
    }
}

/// Adds commands for the nodes that hold the slots; nodes that do not release theirs by themselves
/// come first.
fn in_the_way(holders: &[SlotHolder], plain: Remedy) -> Remedy {
    let (stuck, moving): (Vec<&SlotHolder>, Vec<&SlotHolder>) =
        holders.iter().partition(|holder| !holder.can_resolve());
    let names = |holders: &[&SlotHolder]| {
        holders.iter().map(|holder| holder.node.clone()).collect::<Vec<_>>()
    };
    let remedy = if stuck.is_empty() {
        plain
    } else {
        Remedy::words(format!(
            "repair the nodes that hold slots and cannot finish without manual action: {}",
            listed(&names(&stuck))
        ))
    };
    stuck
        .iter()
        .chain(&moving)
        .take(SHOWN)
        .fold(remedy, |remedy, holder| remedy.inspect(RemedyContext::why(&holder.node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::without_release;

    /// `why` asked why the driver does not start, 0.1 s after the start of its pod.
    #[test]
    fn starting_driver_is_not_called_broken() {
        let target = without_release(Driver::Gpu, "gpu-operator", None);
        let about = RemedyContext {
            node: Some("gpu-3"),
            driver_pod: Some("nvidia-driver-daemonset-7x2kq"),
            plugin_pods: &[],
            settings: &target.settings,
            is_halted: false,
            has_job: true,
        };
        let not_ready = |trouble: Option<&str>, restarts| Reason::DriverNotReady {
            state: None,
            trouble: trouble.map(str::to_owned),
            restarts,
        };
        let text = |reason: &Reason| remedy_for(reason, about).text;
        let starting = not_ready(None, 0);
        assert_eq!(text(&starting), starting.advice(Driver::Gpu));
        for failing in [not_ready(Some("nvidia-driver-ctr: Error"), 0), not_ready(None, 1)] {
            assert_ne!(text(&failing), text(&starting));
        }
    }

    #[test]
    fn stale_plugin_remedy_names_the_actual_pod() {
        let target = without_release(Driver::Gpu, "gpu-operator", None);
        let about = RemedyContext {
            node: Some("gpu-3"),
            driver_pod: None,
            plugin_pods: &[("dra", "dra-driver-nvidia-gpu-kubelet-plugin-x2x9q")],
            settings: &target.settings,
            is_halted: false,
            has_job: true,
        };
        let remedy =
            remedy_for(&Reason::PluginStale { cause: "its driver is newer".into() }, about);
        assert_eq!(
            remedy.run,
            ["kubectl delete pod -n dra dra-driver-nvidia-gpu-kubelet-plugin-x2x9q"]
        );
    }
}
