//! Whether the operator has observed the live spec. `status.state` does not show it: it has no
//! observedGeneration, and stays `ready` for seconds after an edit. The templates of the DaemonSets
//! show it: they must carry the spec.

use std::collections::BTreeSet;

use contract::driver::Driver;
use contract::names;
use contract::operand::Operand;
use contract::settings::{Mode, Settings};

use super::node::driver_nodes;
use super::pools::DriverPools;
use super::reason::Reason;
use observed::selects;
use observed::version::split_image;
use observed::{
    ClusterPolicy, ImageSpec, NvidiaDriver, Observed, ObservedDaemonSet, ObservedDeployment,
    ObservedNode, OptionalApi,
};

use self::labels::labels_observed;
use self::leadership::ObservationAge;

pub use self::labels::carries_labels;

pub mod actor;
pub mod chart;
pub mod conditions;
mod daemon_set;
mod labels;
pub mod leadership;
mod nvidia_drivers;
mod ofed;

/// Checks whether the operator and its objects match the live spec. `nodes`: whether there are
/// nodes that need the driver.
///
/// # Errors
/// The first reason why the operator has not observed the live spec.
pub fn observed_spec(
    observed: &Observed,
    settings: &Settings,
    nodes: bool,
    looking: ObservationAge,
) -> Result<(), Reason> {
    match settings.driver {
        Driver::Gpu => gpu(observed, settings, nodes, looking),
        Driver::Ofed => ofed::observed_spec(observed, settings, nodes),
        Driver::DaemonSet => daemon_set::observed_spec(observed, settings),
    }
}

/// Returns the custom resources; an error if their API is not served, because the operator cannot
/// run without it.
fn served<T>(api: &OptionalApi<T>, driver: Driver) -> Result<&T, Reason> {
    api.served().ok_or(Reason::PolicyApiMissing { resource: driver.traits().policy_resource })
}

/// Returns the operator's Deployment; an error if it does not exist.
fn operator<'a>(
    observed: &'a Observed,
    settings: &Settings,
) -> Result<&'a ObservedDeployment, Reason> {
    observed.operator.as_ref().ok_or_else(|| Reason::OperatorMissing {
        deployment: settings.operator_deployment().to_owned(),
        namespace: settings.operator_namespace.clone(),
    })
}

fn rolled_out(operator: &ObservedDeployment, settings: &Settings) -> Result<(), Reason> {
    if operator.rolled_out() {
        return Ok(());
    }
    // The status does not say which replicas are available: replicas with an older template are
    // counted first.
    let older = operator.current.saturating_sub(operator.updated);
    let available = if operator.observed {
        operator.available.saturating_sub(older).clamp(0, operator.updated)
    } else {
        0
    };
    Err(Reason::OperatorNotReady {
        deployment: settings.operator_deployment().to_owned(),
        namespace: settings.operator_namespace.clone(),
        available,
        replicas: operator.replicas,
    })
}

fn gpu(
    observed: &Observed,
    settings: &Settings,
    gpu_nodes: bool,
    looking: ObservationAge,
) -> Result<(), Reason> {
    let policy = served(&observed.cluster_policy, Driver::Gpu)?;
    let operator = operator(observed, settings)?;
    chart::of_operator(operator, settings)?;
    let kind = Driver::Gpu.traits().policy_kind;
    let policy = policy
        .as_ref()
        .ok_or_else(|| Reason::PolicyMissing { kind, name: settings.cluster_policy.clone() })?;
    precondition(policy, settings)?;
    if policy.driver_enabled {
        if policy.uses_nvidia_drivers {
            nvidia_drivers::precondition(observed, settings)?;
        }
        actor::one_actor(observed, settings)?;
    }
    rolled_out(operator, settings)?;
    leadership::operator_leads(observed, settings, looking)?;
    conditions::reconciled(kind, &settings.cluster_policy, &policy.conditions)?;
    acted_on(observed, policy, settings)?;
    if policy.driver_enabled && gpu_nodes {
        if policy.uses_nvidia_drivers {
            conditions::nvidia_drivers(observed)?;
        }
        driver_templates(observed, policy)?;
        if settings.mode == Mode::Drive {
            evictions_left_to_us(observed)?;
        }
    }
    // Without GPU nodes, the operator neither creates nor updates DaemonSets: existing DaemonSets
    // keep their templates.
    if policy.toolkit_enabled && gpu_nodes {
        if toolkit_daemon_sets(observed).next().is_none() {
            return Err(Reason::DaemonSetMissing { what: "container toolkit" });
        }
        for daemon_set in toolkit_daemon_sets(observed) {
            carries_image(daemon_set, &policy.toolkit, ImageTagRule::Exact)?;
            labels_observed(daemon_set, policy)?;
        }
    }
    if gpu_nodes {
        operand_templates(observed, policy)?;
    }
    if policy.driver_enabled { Ok(()) } else { no_driver_left(observed, policy) }
}

/// Checks that the operator reconciles this ClusterPolicy. If there are several, it reconciles one
/// and ignores the others.
fn acted_on(
    observed: &Observed,
    policy: &ClusterPolicy,
    settings: &Settings,
) -> Result<(), Reason> {
    let operands = || {
        observed
            .daemon_sets
            .iter()
            .filter(|daemon_set| operand_of(daemon_set).is_some() && !daemon_set.deleting)
    };
    let own = operands().any(|daemon_set| daemon_set.owner.as_ref() == Some(&policy.uid));
    let others = operands().any(|daemon_set| daemon_set.owner.is_some());
    if own || !others {
        Ok(())
    } else {
        Err(Reason::PolicyIgnored { name: settings.cluster_policy.clone() })
    }
}

/// Checks that no driver of the ClusterPolicy still runs if the ClusterPolicy disables the driver:
/// its nodes would be mistaken for nodes with their own drivers.
fn no_driver_left(observed: &Observed, policy: &ClusterPolicy) -> Result<(), Reason> {
    let has_pods = |daemon_set: &&ObservedDaemonSet| {
        daemon_set.desired > 0
            || observed.pods.iter().any(|pod| pod.owner.as_ref() == Some(&daemon_set.uid))
    };
    let mut left = gpu_daemon_sets(observed)
        .filter(|daemon_set| daemon_set.owner.as_ref() == Some(&policy.uid))
        .filter(has_pods);
    left.next().map_or(Ok(()), |daemon_set| {
        Err(Reason::DriverLeftOver { daemon_set: daemon_set.name.clone() })
    })
}

/// Checks that every enabled operand has a DaemonSet whose template carries the spec. An error in
/// one operand ends the operator's pass, so each operand must be checked.
fn operand_templates(observed: &Observed, policy: &ClusterPolicy) -> Result<(), Reason> {
    for operand in Operand::ALL.into_iter().filter(|operand| *operand != Operand::Toolkit) {
        let traits = operand.traits();
        let Some(spec) = policy.operands.get(&operand).filter(|spec| spec.enabled) else {
            continue;
        };
        let found = observed
            .daemon_sets
            .iter()
            .find(|daemon_set| operand_of(daemon_set) == Some(operand) && !daemon_set.deleting);
        let Some(daemon_set) = found else {
            if traits.everywhere {
                return Err(Reason::DaemonSetMissing { what: traits.daemon_set });
            }
            continue;
        };
        labels_observed(daemon_set, policy)?;
        if traits.gates {
            carries_image(daemon_set, &spec.image, ImageTagRule::Exact)?;
        }
    }
    Ok(())
}

/// Returns the operand of an operator's DaemonSet.
pub fn operand_of(daemon_set: &ObservedDaemonSet) -> Option<Operand> {
    Operand::from_app(daemon_set.template_labels.get("app")?)
}

/// Returns a fingerprint of the specs of a rollout: UID and generation of ClusterPolicy,
/// NicClusterPolicy and every NVIDIADriver. It also changes with edits that appear in no template.
pub fn fingerprint(observed: &Observed) -> String {
    let policy = observed
        .live_cluster_policy()
        .map(|policy| format!("{}/{}", policy.uid, policy.generation));
    let nic = observed
        .live_nic_cluster_policy()
        .map(|policy| format!("{}/{}", policy.uid, policy.generation));
    let drivers = observed
        .live_nvidia_drivers()
        .map(|driver| format!("{}/{}", driver.uid, driver.generation));
    policy.into_iter().chain(nic).chain(drivers).collect::<Vec<_>>().join("+")
}

/// Returns the driver DaemonSets in the operator's namespace that belong to a custom resource.
pub fn driver_daemon_sets(observed: &Observed, driver: Driver) -> Vec<&ObservedDaemonSet> {
    match driver {
        Driver::Gpu => {
            let enabled = observed.live_cluster_policy().is_none_or(|policy| policy.driver_enabled);
            gpu_daemon_sets(observed).filter(|_| enabled).collect()
        }
        Driver::Ofed => ofed::daemon_sets(observed).collect(),
        Driver::DaemonSet => daemon_set::daemon_sets(observed).collect(),
    }
}

/// Returns what the proof of a driver is about: what each of its DaemonSets installs, separated by
/// spaces.
pub fn driver_identity(observed: &Observed, driver: Driver) -> String {
    let container = driver.traits().container;
    let installed: BTreeSet<String> = driver_daemon_sets(observed, driver)
        .into_iter()
        .flat_map(|daemon_set| {
            let own = daemon_set.images.get(container).into_iter();
            let every = daemon_set.images.values().filter(|_| container.is_empty());
            let config = daemon_set.config_digest.as_deref();
            own.chain(every).map(move |image| installed_driver(image, config))
        })
        .collect();
    installed.into_iter().collect::<Vec<_>>().join(" ")
}

/// Returns what a DaemonSet installs: its image, and the digest of the driver's configuration if the
/// operator computes one. Another kernel module type, for example, is another driver.
pub fn installed_driver(image: &str, config_digest: Option<&str>) -> String {
    match config_digest {
        Some(digest) => format!("{image}#{digest}"),
        None => image.to_owned(),
    }
}

/// Returns the DaemonSets of the GPU driver, of a ClusterPolicy or of NVIDIADrivers.
fn gpu_daemon_sets(observed: &Observed) -> impl Iterator<Item = &ObservedDaemonSet> {
    labeled(observed, (names::DRIVER_COMPONENT.0, Some(names::DRIVER_COMPONENT.1)))
}

/// Returns the container toolkit's DaemonSets.
pub fn toolkit_daemon_sets(observed: &Observed) -> impl Iterator<Item = &ObservedDaemonSet> {
    labeled(observed, (names::TOOLKIT_APP.0, Some(names::TOOLKIT_APP.1)))
}

fn labeled<'a>(
    observed: &'a Observed,
    (key, value): (&'a str, Option<&'a str>),
) -> impl Iterator<Item = &'a ObservedDaemonSet> {
    let matches = move |daemon_set: &&ObservedDaemonSet| {
        daemon_set
            .template_labels
            .get(key)
            .is_some_and(|found| value.is_none_or(|value| found == value))
    };
    observed.daemon_sets.iter().filter(matches).filter(|daemon_set| !daemon_set.deleting)
}

/// Checks that the live ClusterPolicy matches the values of this bundle: a deployer that cannot
/// order releases may start the hook early.
fn precondition(policy: &ClusterPolicy, settings: &Settings) -> Result<(), Reason> {
    let expected = &settings.expected;
    let (kind, manager) = (Driver::Gpu.traits().policy_kind, policy.driver_field_manager.as_ref());
    let mismatch = |field, expected: &str, found: Option<&str>| {
        Reason::precondition(kind, &settings.cluster_policy, field, expected, found, manager)
    };
    if let Some(enabled) = expected.driver_enabled
        && enabled != policy.driver_enabled
    {
        return Err(mismatch(
            "spec.driver.enabled",
            &enabled.to_string(),
            Some(&policy.driver_enabled.to_string()),
        ));
    }
    if let Some(uses) = expected.nvidia_drivers
        && policy.driver_enabled
        && uses != policy.uses_nvidia_drivers
    {
        return Err(mismatch(
            "spec.driver.useNvidiaDriverCRD",
            &uses.to_string(),
            Some(&policy.uses_nvidia_drivers.to_string()),
        ));
    }
    // If drivers come from NVIDIADrivers, the version is in them (`nvidia_drivers::precondition`).
    if let Some(version) = &expected.driver_version
        && policy.driver_enabled
        && !policy.uses_nvidia_drivers
        && policy.driver.version.as_ref() != Some(version)
    {
        return Err(mismatch(
            Driver::Gpu.traits().version_field,
            version,
            policy.driver.version.as_deref(),
        ));
    }
    if let Some(version) = &expected.toolkit_version
        && policy.toolkit_enabled
        && policy.toolkit.version.as_ref() != Some(version)
    {
        return Err(mismatch("spec.toolkit.version", version, policy.toolkit.version.as_deref()));
    }
    Ok(())
}

/// Checks that the driver manager's own evictions are off in every driver template.
fn evictions_left_to_us(observed: &Observed) -> Result<(), Reason> {
    for daemon_set in gpu_daemon_sets(observed)
        .filter(|daemon_set| daemon_set.images.contains_key(names::DRIVER_MANAGER_CONTAINER))
    {
        for key in names::MANAGER_EVICTIONS {
            let found = daemon_set.manager_environment.get(key).map(String::as_str);
            if found != Some("false") {
                return Err(Reason::SpecNotObserved {
                    object: format!("daemonset/{}", daemon_set.name),
                    field: format!(
                        "environment variable {key} of {}",
                        names::DRIVER_MANAGER_CONTAINER
                    ),
                    expected: "false".to_owned(),
                    found: found.unwrap_or("absent").to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// Checks that every specified driver has a DaemonSet whose template carries the spec.
fn driver_templates(observed: &Observed, policy: &ClusterPolicy) -> Result<(), Reason> {
    if policy.uses_nvidia_drivers {
        let drivers = observed
            .nvidia_drivers
            .served()
            .filter(|drivers| !drivers.is_empty())
            .ok_or(Reason::NvidiaDriverMissing)?;
        let owned_by = |driver: &NvidiaDriver| {
            gpu_daemon_sets(observed)
                .any(|daemon_set| daemon_set.owner.as_ref() == Some(&driver.uid))
        };
        let pools = DriverPools::new(observed);
        if !drivers.iter().any(owned_by) && takers(observed).any(|node| pools.wants(node)) {
            return Err(Reason::DaemonSetMissing { what: "driver" });
        }
        for driver in drivers {
            let owned = served_daemon_sets(observed, &driver.uid);
            // A driver whose selector matches no node has no DaemonSet; nodes without a driver are
            // reported per node.
            for daemon_set in owned {
                carries_image(daemon_set, &driver.driver, ImageTagRule::WithSuffix)?;
            }
        }
        return Ok(());
    }
    let owned =
        gpu_daemon_sets(observed).any(|daemon_set| daemon_set.owner.as_ref() == Some(&policy.uid));
    if !owned && takers(observed).next().is_some() {
        return Err(Reason::DaemonSetMissing { what: "driver" });
    }
    for daemon_set in served_daemon_sets(observed, &policy.uid) {
        carries_image(daemon_set, &policy.driver, ImageTagRule::WithSuffix)?;
        carries_image(daemon_set, &policy.driver_manager, ImageTagRule::Exact)?;
        labels_observed(daemon_set, policy)?;
    }
    Ok(())
}

/// Returns the nodes that the operator has labeled for one of its drivers. The waits of the other
/// nodes are reported per node.
fn takers(observed: &Observed) -> impl Iterator<Item = &ObservedNode> {
    let takes = |node: &&ObservedNode| node.labels.has(names::DEPLOY_DRIVER_LABEL, "true");
    driver_nodes(observed, Driver::Gpu).filter(takes)
}

/// Returns the driver DaemonSets of a custom resource that have nodes. With precompiled drivers,
/// every pass of the operator deletes and recreates the DaemonSets of kernels without nodes: they
/// affect no node, and never stay up to date.
fn served_daemon_sets<'a>(
    observed: &'a Observed,
    owner: &'a str,
) -> impl Iterator<Item = &'a ObservedDaemonSet> {
    let has_nodes = |daemon_set: &&ObservedDaemonSet| {
        daemon_set.desired > 0
            || observed.nodes.values().any(|node| selects(&daemon_set.node_selector, &node.labels))
    };
    gpu_daemon_sets(observed)
        .filter(move |daemon_set| daemon_set.owner.as_deref() == Some(owner))
        .filter(has_nodes)
}

/// How the tag of an image is derived from the version in the spec.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImageTagRule {
    /// The tag is the version.
    Exact,
    /// The operator appends `-<operating system>` (precompiled: also the kernel).
    WithSuffix,
}

/// Checks that the DaemonSet controller has observed the newest generation.
fn newest_observed(daemon_set: &ObservedDaemonSet) -> Result<(), Reason> {
    if daemon_set.observed {
        return Ok(());
    }
    Err(behind(daemon_set, "observedGeneration", "the newest generation", "an older generation"))
}

/// Checks that one of the template's images is the image in the spec. Parts that the spec omits
/// come from the operator's environment and are not compared.
fn carries_image(
    daemon_set: &ObservedDaemonSet,
    wanted: &ImageSpec,
    tag: ImageTagRule,
) -> Result<(), Reason> {
    newest_observed(daemon_set)?;
    let (Some(image), Some(version)) = (&wanted.image, &wanted.version) else { return Ok(()) };
    let of_name = daemon_set.images.values().find(|candidate| wanted.names(candidate));
    let version_matches = |candidate: &str| {
        split_image(candidate).1.is_some_and(|found| match found.strip_prefix(version.as_str()) {
            Some("") => true,
            Some(rest) => tag == ImageTagRule::WithSuffix && rest.starts_with('-'),
            None => false,
        })
    };
    if of_name.is_some_and(|candidate| version_matches(candidate)) {
        return Ok(());
    }
    let found = of_name
        .cloned()
        .unwrap_or_else(|| daemon_set.images.values().cloned().collect::<Vec<_>>().join(", "));
    let name = wanted
        .repository
        .as_ref()
        .map_or_else(|| image.clone(), |repository| format!("{repository}/{image}"));
    let separator = if version.starts_with("sha256:") { '@' } else { ':' };
    Err(behind(daemon_set, "image", &format!("{name}{separator}{version}"), &found))
}

fn behind(daemon_set: &ObservedDaemonSet, field: &str, expected: &str, found: &str) -> Reason {
    Reason::SpecNotObserved {
        object: format!("daemonset/{}", daemon_set.name),
        field: field.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}
