//! Edits that break a promise: what the deployer's files say must fit together, whoever wrote them.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::device_plugin;
use super::info::{INFO, Info};
use super::verify::Finding;
use crate::contract::budget::deployer_timeout_seconds;
use crate::contract::duty::Duty;
use crate::contract::yaml;
use crate::deployer::helm::DEPLOY;
use crate::deployer::helm::facts::{self, Step};
use crate::deployer::layout::{SETTINGS, VALUES};

/// What a hook's settings say, as far as it must fit to the rest.
#[derive(Deserialize)]
struct Settings {
    rollout: Rollout,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rollout {
    component: Component,
    #[serde(default)]
    duties: Vec<Duty>,
    budget_seconds: u64,
}

#[derive(Deserialize)]
struct Component {
    name: String,
    version: String,
}

/// Every broken promise of the bundle in `directory`.
pub(super) fn broken(directory: &Path) -> Vec<Finding> {
    let broken = |path: &str, reason: String| Finding::Promise { path: path.to_owned(), reason };
    // A script that is gone or cannot be read is named by the checksums already.
    let Ok(script) = fs::read_to_string(directory.join(DEPLOY)) else { return Vec::new() };
    let steps = facts::steps(&script);
    let mut findings = Vec::new();
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.kind == "hook") {
        let path = format!("{}/{SETTINGS}", step.folder);
        // As above.
        let Ok(text) = fs::read_to_string(directory.join(&path)) else { continue };
        match yaml::from_str::<Settings>(&text) {
            Ok(settings) => findings.extend(hook(&settings.rollout, step, steps.split_at(index)).map(|reason| broken(DEPLOY, reason))),
            Err(_) => findings.push(broken(&path, "does not hold the settings of a hook".to_owned())),
        }
    }
    let version = |component: &str| {
        let upstream = steps.iter().find(|step| step.kind == "upstream" && step.name() == component);
        upstream.map(|step| step.rest.first().map_or("", String::as_str))
    };
    // As above; an information that is no YAML is changed, and has nothing more to say.
    let info = fs::read_to_string(directory.join(INFO)).ok().and_then(|text| yaml::from_str::<Info>(&text).ok());
    findings.extend(info.iter().flat_map(|info| device_plugin::broken(directory, info)));
    for release in info.into_iter().flat_map(|info| info.releases) {
        let said = release.version.unwrap_or_default();
        match release.kind.as_str() {
            "upstream" => match version(&release.name) {
                None => findings.push(broken(DEPLOY, format!("{} is not deployed any more", release.name))),
                Some(deployed) if deployed != said => {
                    findings.push(broken(INFO, format!("says {} {said}, and `{DEPLOY}` deploys {deployed}", release.name)));
                }
                Some(_) => {}
            },
            "crds" => {
                let step = steps.iter().find(|step| step.kind == "crds" && step.folder == release.folder);
                let found = step.and_then(|step| step.rest.first()).map_or("none", String::as_str);
                let component = release.component.unwrap_or_default();
                if let Some(deployed) = version(&component).filter(|deployed| *deployed != found) {
                    findings.push(broken(
                        DEPLOY,
                        format!("deploys {component} {deployed} with the CRDs of version {found}: change the recipe and render again"),
                    ));
                }
            }
            _ => {}
        }
    }
    findings
}

/// What is wrong with a hook, given the steps before it and those from it on.
fn hook(rollout: &Rollout, step: &Step, (before, after): (&[Step], &[Step])) -> impl Iterator<Item = String> {
    let Component { name, version } = &rollout.component;
    let prepares = rollout.duties.contains(&Duty::PrepareNetwork);
    let upstream = if prepares { after } else { before }.iter().find(|step| step.kind == "upstream" && step.name() == name);
    let fit = match upstream {
        None if prepares => Some(format!("{} does not come before {name}, which it makes ready for", step.name())),
        None => Some(format!("{} does not come after {name}, which it waits for", step.name())),
        Some(upstream) if upstream.rest.first() != Some(version) => {
            let deployed = upstream.rest.first().map_or("no version", String::as_str);
            Some(format!(
                "deploys {name} {deployed}, but its hook {} is made for {version}: change the recipe and render again",
                step.name()
            ))
        }
        Some(upstream) => {
            let shared = format!("{}/{VALUES}", upstream.folder);
            (step.rest.first() != Some(&shared))
                .then(|| format!("{} does not share `{shared}`, so edits there do not fire it", step.name()))
        }
    };
    let least = deployer_timeout_seconds(rollout.budget_seconds);
    let time = step.timeout_seconds.filter(|timeout| *timeout < least).map(|timeout| {
        format!("{} gets {timeout} s, less than the {least} s that its budget of {} s needs", step.name(), rollout.budget_seconds)
    });
    fit.into_iter().chain(time)
}
