//! Finds edits that make the deployer's files inconsistent, for any deployer.

use super::device_plugin;
use super::directory::{BundleDirectory, texts};
use super::info::{INFO, ReleaseInfo};
use super::verify::BundleFinding;
use contract::budget::deployer_timeout_seconds;
use contract::task::Task;
use deployer::layout::SETTINGS;
use parity::{BundleFacts, DeployerFact, HookFacts, ReadbackError, ReleaseFacts, read_facts};

/// Returns every inconsistency of a bundle.
pub(super) fn broken(bundle: &BundleDirectory) -> Vec<BundleFinding> {
    // The check of the checksums already reports files that are missing or may not be read.
    let files = match bundle.contents() {
        Ok(contents) => texts(contents),
        Err(error) => return vec![finding(INFO, error.to_string())],
    };
    let facts = match read_facts(&files) {
        Ok(facts) => facts,
        Err(ReadbackError::Unreadable { path, reason }) => {
            return vec![finding(&path, format!("cannot be read: {reason}"))];
        }
        // As above: the deployer's main file is missing, or another one was added.
        Err(
            ReadbackError::NoDeployer
            | ReadbackError::SeveralDeployers(_)
            | ReadbackError::Missing(_),
        ) => return Vec::new(),
    };
    let mut findings = Vec::new();
    let info = match bundle.info() {
        Ok(info) => Some(info),
        // As above.
        Err(_) if files.get(INFO).is_none() => None,
        Err(error) => {
            findings.push(finding(INFO, format!("cannot be compared with the bundle: {error}")));
            None
        }
    };
    findings.extend(info.iter().flat_map(|info| device_plugin::broken(&files, info)));
    let listed: &[ReleaseInfo] = info.as_ref().map_or(&[], |info| info.releases.as_slice());
    for (name, release) in &facts.releases {
        findings.extend(release_findings(name, release, &facts, listed));
    }
    for said in listed {
        findings.extend(info_findings(said, &facts));
    }
    findings.sort();
    findings.dedup();
    findings
}

fn finding(path: &str, reason: String) -> BundleFinding {
    BundleFinding::Promise { path: path.to_owned(), reason }
}

/// Returns the findings about a release, given the others, and those that `bundle-info.yaml` lists.
fn release_findings(
    name: &str,
    release: &ReleaseFacts,
    facts: &BundleFacts,
    listed: &[ReleaseInfo],
) -> Vec<BundleFinding> {
    let mut reasons: Vec<String> = release
        .values
        .missing
        .iter()
        .map(|path| format!("{name} uses `{path}`, which does not exist"))
        .collect();
    if let Some(path) = &release.values.differs_from {
        reasons.push(format!("{name} is deployed with other values than those in `{path}`: change the recipe and render again with --force"));
    }
    if release.waits_for_objects == DeployerFact::Is(true) {
        reasons.push(format!("{name} waits for all its objects, which become ready only after hooks that have not started yet"));
    }
    // Without its settings, a hook seems to be that of another component.
    let own = format!("{}/{SETTINGS}", release.chart.place);
    if let Some(hook) = release.hook.as_ref().filter(|_| !release.values.missing.contains(&own)) {
        reasons.extend(hook_reasons(name, release, hook, facts, listed));
        let least = deployer_timeout_seconds(hook.budget_seconds);
        for timeout in release.evidence.timeouts.iter().filter(|timeout| timeout.seconds < least) {
            reasons.push(format!(
                "{name} gets {} s, less than the {least} s that its budget of {} s needs",
                timeout.seconds, hook.budget_seconds
            ));
        }
    }
    reasons.into_iter().map(|reason| finding(&release.evidence.file, reason)).collect()
}

/// Returns the problems of a hook. It must fire for its component, with the right version, after
/// it; or before it, if it prepares it.
fn hook_reasons(
    name: &str,
    release: &ReleaseFacts,
    hook: &HookFacts,
    facts: &BundleFacts,
    listed: &[ReleaseInfo],
) -> Vec<String> {
    let HookFacts { component, component_version, .. } = hook;
    if component.is_empty() {
        return vec![format!("{name} does not contain the settings of a hook")];
    }
    let is_step =
        |name: &String| Task::ALL.iter().any(|task| task.is_step() && task.name() == name);
    let prepares = !hook.tasks.is_empty() && hook.tasks.iter().all(is_step);
    let Some(upstream) =
        facts.releases.get(component).filter(|upstream| upstream.kind == "upstream")
    else {
        return vec![format!("{name} belongs to {component}, which is not deployed")];
    };
    if prepares && !upstream.after.releases.contains(name) {
        return vec![format!("{name} does not come before {component}, which it prepares")];
    }
    if !prepares && !release.after.releases.contains(component) {
        return vec![format!("{name} does not come after {component}, which it waits for")];
    }
    let mut reasons = Vec::new();
    if release.runs_hooks == DeployerFact::Is(false) {
        reasons.push(format!("{name} is deployed with hooks disabled, so its Job never runs"));
    }
    match &upstream.chart.version {
        Some(deployed) if component_version.is_empty() => reasons.push(format!(
            "deploys {component} {deployed}, but the settings of its hook {name} do not name a version: render again with --force"
        )),
        Some(deployed) if deployed != component_version => reasons.push(format!(
            "deploys {component} {deployed}, but its hook {name} is made for {component_version}: change the recipe and render again with --force"
        )),
        _ => {}
    }
    // Objects of the component that users edit: custom resources, manifests, and configurations of
    // the device plugin. The name of another component may start with the name of this one.
    let objects = listed
        .iter()
        .filter(|said| !prepares && said.component.as_ref() == Some(component))
        .filter_map(|said| facts.releases.get(&said.name))
        .filter(|found| found.kind == "manifests");
    let files = objects.flat_map(|objects| &objects.values.files).chain(&upstream.values.files);
    let shared = files.filter(|path| !release.values.files.contains(path));
    reasons.extend(
        shared.map(|path| format!("{name} does not share `{path}`, so edits there do not fire it")),
    );
    let own = format!("{}/{SETTINGS}", release.chart.place);
    if release.values.files.last() != Some(&own) {
        reasons.push(format!("{name} does not use its own settings, `{own}`, last"));
    }
    reasons
}

/// Returns the differences from `bundle-info.yaml`.
fn info_findings(said: &ReleaseInfo, facts: &BundleFacts) -> Vec<BundleFinding> {
    let Some(release) = facts.releases.get(&said.name) else {
        return vec![finding(&facts.file, format!("{} is not deployed any more", said.name))];
    };
    let file = &release.evidence.file;
    let mut findings = Vec::new();
    let is_said = |need: &String| said.kind == "hook" && said.component.as_ref() == Some(need);
    let unmet = release
        .unmet_needs
        .iter()
        .filter(|need| facts.releases.contains_key(*need) && !is_said(need));
    for need in unmet {
        findings.push(finding(
            file,
            format!("{} does not come after {need}, which it needs", said.name),
        ));
    }
    match said.kind.as_str() {
        "upstream" | "kustomization" => {
            let version = said.version.as_deref();
            if let Some(deployed) =
                release.chart.version.as_deref().filter(|deployed| Some(*deployed) != version)
            {
                let version = version.unwrap_or("without a version");
                findings.push(finding(
                    INFO,
                    format!("lists {} {version}, but `{file}` deploys {deployed}", said.name),
                ));
            }
        }
        "crds" => {
            let component = said.component.as_deref().unwrap_or_default();
            let deployed = facts
                .releases
                .get(component)
                .filter(|upstream| upstream.kind == "upstream")
                .and_then(|upstream| upstream.chart.version.as_deref());
            let found = release.chart.app_version.as_deref();
            if let Some(deployed) = deployed.filter(|deployed| Some(*deployed) != found) {
                let reason = match found {
                    Some(found) => format!(
                        "deploys {component} {deployed} with the CRDs of version {found}: change the recipe and render again with --force"
                    ),
                    None => format!(
                        "deploys {component} {deployed}, but its CRDs in `{}` do not name a version: render again with --force",
                        release.chart.place
                    ),
                };
                findings.push(finding(&facts.releases[component].evidence.file, reason));
            }
        }
        _ => {}
    }
    findings
}
