//! Rules for sharing.

use super::super::effective::SettingResolver;
use super::super::environment::PluginEnvironment;
use super::super::keys;
use super::super::model::{ResourceSharing, SharedResource};
use super::super::name::{LONGEST, PREFIX, SHARED_SUFFIX};
use super::super::rule::{ConfigFinding, ConfigRule};
use super::super::version::PluginVersion;
use super::LintTarget;
use diagnostics::nearest::nearest;

/// How many clients of one GPU every MPS server supports.
const MPS_CLIENTS: i64 = 16;
/// How many clients of one GPU the newest MPS servers support.
const MOST_MPS_CLIENTS: i64 = 48;

pub(super) fn check(subject: &LintTarget<'_>, findings: &mut Vec<ConfigFinding>) {
    two_strategies(subject, findings);
    for (strategy, shared) in
        [("mps", &subject.config.mps), ("timeSlicing", &subject.config.time_slicing)]
            .into_iter()
            .filter_map(|(name, shared)| Some((name, shared.as_ref()?)))
    {
        for (index, resource) in shared.resources.iter().enumerate() {
            duplicate(&shared.resources[..index], resource, findings);
            name(subject, shared, resource, findings);
            if strategy == "mps" {
                findings.extend(mps_replicas(resource));
            }
        }
        if strategy == "mps" {
            mps_requests(subject, shared, findings);
        }
    }
}

fn two_strategies(subject: &LintTarget<'_>, findings: &mut Vec<ConfigFinding>) {
    let sharing = subject.node.get("sharing");
    let place = |key| {
        sharing
            .and_then(|sharing| sharing.entry(key))
            .filter(|entry| !entry.node.is_null())
            .map(|entry| entry.key_origin)
    };
    if let (Some(mps), Some(time_slicing)) = (place("mps"), place("timeSlicing")) {
        ConfigRule::TwoStrategies
            .finding("`mps` and `timeSlicing` exclude each other; the plugin accepts both, and ignores `timeSlicing`")
            .at(time_slicing)
            .label("ignored")
            .related(mps, "counts")
            .hint("keep one of them; nodes can have different configurations by label")
            .report(findings);
    }
}

fn duplicate(
    earlier: &[SharedResource],
    resource: &SharedResource,
    findings: &mut Vec<ConfigFinding>,
) {
    if let Some(first) = earlier.iter().find(|first| first.name == resource.name) {
        ConfigRule::DuplicateResource
            .finding(format!(
                "`{}` is shared twice; the plugin accepts it, and offers {} replicas, but labels the node with {}",
                resource.name,
                first.replicas.max(resource.replicas),
                first.replicas
            ))
            .at(resource.origin)
            .related(first.origin, "first here")
            .hint("keep one of them")
            .report(findings);
    }
}

fn name(
    subject: &LintTarget<'_>,
    shared: &ResourceSharing,
    resource: &SharedResource,
    findings: &mut Vec<ConfigFinding>,
) {
    let name = &resource.name;
    if !name.can_exist() {
        let hint = match name.short().strip_suffix(SHARED_SUFFIX) {
            Some(plain) => format!("write `{PREFIX}{plain}` and set `renameByDefault: true`"),
            None => match nearest(name.short(), ["gpu", "mig-"]) {
                Some("mig-") => "the names of MIG devices are `nvidia.com/mig-<profile>`, such as `nvidia.com/mig-1g.10gb`".to_owned(),
                Some(_) => "did you mean `nvidia.com/gpu`?".to_owned(),
                None => "device names are `nvidia.com/gpu` and, with the MIG strategy `mixed`, `nvidia.com/mig-<profile>`".to_owned(),
            },
        };
        ConfigRule::NoSuchResource
            .finding(format!(
                "no device has the name `{name}`; the plugin accepts it, and shares nothing"
            ))
            .at(resource.origin)
            .hint(hint)
            .report(findings);
    } else if name.is_mig() {
        let strategy = SettingResolver { config: subject.config, environment: subject.environment }
            .text(keys::MIG_STRATEGY)
            .value;
        if strategy != "mixed" {
            ConfigRule::MigName
                .finding(format!(
                    "with the MIG strategy `{strategy}`, no device has the name `{name}`; the plugin accepts it, and ignores it"
                ))
                .at(resource.origin)
                .hint(mig_hint(subject.environment))
                .report(findings);
        }
    }
    let shared_name = name.shared();
    if shared.rename_by_default && shared_name.len() > LONGEST {
        ConfigRule::LongName
            .finding(format!(
                "`{shared_name}` has {} characters; the plugin accepts it, although its own limit for names is {LONGEST}",
                shared_name.len()
            ))
            .at(resource.origin)
            .hint("set `renameByDefault: false`")
            .report(findings);
    }
}

fn mig_hint(environment: &PluginEnvironment) -> String {
    match environment.first(keys::key(keys::MIG_STRATEGY).environment) {
        Some(variable) => format!(
            "the strategy comes from {}: set it to `mixed` there, or share `nvidia.com/gpu`",
            variable.because
        ),
        None => "set `flags.migStrategy: mixed`, or share `nvidia.com/gpu`".to_owned(),
    }
}

fn mps_replicas(resource: &SharedResource) -> Option<ConfigFinding> {
    let limit = if resource.replicas > MOST_MPS_CLIENTS {
        format!("no GPU supports more than {MOST_MPS_CLIENTS} clients")
    } else if resource.replicas > MPS_CLIENTS {
        format!("GPUs with compute capability below 7.5 support at most {MPS_CLIENTS} clients")
    } else {
        return None;
    };
    Some(
        ConfigRule::MpsReplicas
            .finding(format!(
                "`replicas: {}` with MPS: {limit}; the plugin accepts it, and the MPS daemon fails on the node",
                resource.replicas
            ))
            .at(resource.replicas_origin),
    )
}

fn mps_requests(
    subject: &LintTarget<'_>,
    shared: &ResourceSharing,
    findings: &mut Vec<ConfigFinding>,
) {
    if shared.fail_requests_greater_than_one == Some(false)
        && subject.version < PluginVersion::minor(20)
    {
        let place = subject
            .node
            .at_keys(&["sharing", "mps", "failRequestsGreaterThanOne"])
            .map_or(subject.node.origin, |node| node.origin);
        ConfigRule::MpsRequests
            .finding(format!(
                "the device plugin {} accepts `false`, but still refuses larger requests with MPS",
                subject.version
            ))
            .at(place)
            .hint("remove it, or use 0.20 or later")
            .report(findings);
    }
}
