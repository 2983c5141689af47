//! `bundle-info.yaml`: the input and the releases of a bundle. It contains no times and no data of
//! the machine, so that the same input gives the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::build::BundleInput;
use super::checksums::lines;
use contract::digest::sha256;
use contract::file_content::FileContent;
use deployer::layout::folders;
use deployer::{BundleFile, BundleSource, RenderError};
use recipe::model::NodeScheduling;
use release::ReleasePlan;
use release::model::ReleaseKind;

/// The file's name. A directory without it is not a bundle.
pub const INFO: &str = "bundle-info.yaml";
/// The line that identifies the file.
pub const MARK: &str = "kind: BundleInfo";
/// The version of the file's format, and so of the bundle's. A bundle with another version is
/// refused.
pub const API_VERSION: &str = "gpu-rollout.dev/v1";

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleInfo {
    /// Version of this format ([`API_VERSION`]).
    pub api_version: String,
    /// Always `BundleInfo`.
    pub kind: String,
    /// Name and version of the program.
    pub rendered_by: String,
    /// The deployer.
    pub deployer: String,
    /// The source from which the deployer reads the bundle, if the files name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BundleSource>,
    /// The recipe.
    pub recipe: RecipeInfo,
    /// SHA-256 over the hook chart's files.
    pub hook_chart: String,
    /// The value of `--hook-image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook_image: Option<String>,
    /// The values of `--chart-repository`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub chart_repositories: BTreeMap<String, String>,
    /// The values of `--registry-mirror`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registry_mirrors: Vec<String>,
    /// The values of `--image-pull-secret`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// The values of `--system-node-…` and `--accelerated-node-…`.
    #[serde(default, skip_serializing_if = "NodeScheduling::is_empty")]
    pub node_scheduling: NodeScheduling,
    /// The releases in order.
    pub releases: Vec<ReleaseInfo>,
}

/// The recipe of a bundle, which the bundle contains as [`RECIPE`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecipeInfo {
    /// Its name.
    pub name: String,
    /// SHA-256 of the file.
    pub sha256: String,
}

/// The identity of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleIdentity {
    /// The recipe's name.
    pub recipe: String,
    /// The deployer.
    pub deployer: String,
}

impl BundleIdentity {
    /// Parses the identity from the file; `None` if it cannot be read.
    pub(super) fn parse(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct BundleInfoHead {
            deployer: String,
            recipe: RecipeInfo,
        }
        let BundleInfoHead { deployer, recipe } = yaml::from_str(text).ok()?;
        Some(Self { recipe: recipe.name, deployer })
    }
}

/// The recipe with everything that it extends and every `--set`.
pub const RECIPE: &str = "recipe.yaml";

/// One release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseInfo {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its folder.
    pub folder: String,
    /// Its namespace.
    pub namespace: String,
    /// The vendor's chart, or the place of a kustomization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// The component that it belongs to, if it is not the component itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The component's version, or the revision of a kustomization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The tasks of its Job. Bundles of version 0.1.0 have the key `duties`.
    #[serde(default, alias = "duties", skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The releases whose values it consumes in addition to its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<String>,
    /// The time budget (B) in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_seconds: Option<u64>,
    /// The deployer's timeout (T) in seconds.
    pub timeout_seconds: u64,
    /// The releases that must succeed before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// Returns the file for a plan.
///
/// # Errors
/// The data cannot be written as YAML.
pub(super) fn file(recipe: RecipeInfo, parts: BundleInput<'_>) -> Result<BundleFile, RenderError> {
    let BundleInput { plan, options, deployer, hook_chart, source, .. } = parts;
    let info = BundleInfo {
        api_version: API_VERSION.to_owned(),
        kind: "BundleInfo".to_owned(),
        rendered_by: concat!("gpu-rollout ", env!("CARGO_PKG_VERSION")).to_owned(),
        deployer: deployer.name.to_owned(),
        source: source.cloned(),
        recipe,
        hook_chart: chart_digest(hook_chart),
        hook_image: options.hook_image.as_ref().map(ToString::to_string),
        chart_repositories: options.chart_repositories.clone(),
        registry_mirrors: options.registry_mirrors.iter().map(ToString::to_string).collect(),
        image_pull_secrets: options.pull_secrets.clone(),
        node_scheduling: options.node_scheduling.clone(),
        releases: releases(plan),
    };
    let text = yaml::to_string(&info).map_err(|_| RenderError::Yaml(INFO.to_owned()))?;
    Ok(BundleFile::text(
        INFO,
        format!(
            "# The input and the releases of this bundle. Written by `gpu-rollout bundle render`, read by `gpu-rollout bundle verify`.\n{text}"
        ),
    ))
}

fn chart_digest(files: &[(&str, FileContent)]) -> String {
    let digests: BTreeMap<&str, &str> =
        files.iter().map(|(path, content)| (*path, content.sha256())).collect();
    sha256(lines(digests.into_iter()).as_bytes())
}

/// Returns the data of each release.
pub fn releases(plan: &ReleasePlan) -> Vec<ReleaseInfo> {
    let info = |(folder, release): (String, &release::Release)| {
        let mut info = ReleaseInfo {
            name: release.name.clone(),
            kind: release.kind.name().to_owned(),
            folder,
            namespace: release.namespace.clone(),
            timeout_seconds: release.timeout_seconds,
            needs: release.needs.clone(),
            ..ReleaseInfo::default()
        };
        match &release.kind {
            ReleaseKind::Upstream(upstream) => {
                info.chart = Some(upstream.chart.place());
                info.version = Some(upstream.version.clone());
            }
            ReleaseKind::Kustomization(source) => {
                info.chart = Some(source.place());
                info.version = Some(source.revision.clone());
            }
            ReleaseKind::Crds(crds) => {
                info.component = Some(crds.component.clone());
                info.version = Some(crds.version.clone());
            }
            ReleaseKind::Hook(hook) => {
                info.component = Some(hook.component.clone());
                info.version = Some(hook.version.clone());
                info.tasks = hook.tasks.iter().map(|task| task.name().to_owned()).collect();
                info.shares.clone_from(&hook.shares);
                info.budget_seconds = Some(hook.budget.seconds);
            }
            ReleaseKind::Manifests(manifests) => info.component.clone_from(&manifests.component),
            // A release of all manifests of a component is the component itself.
            ReleaseKind::Templates(templates) => {
                info.component = Some(templates.component.clone())
                    .filter(|component| *component != release.name);
                info.shares.clone_from(&templates.shares);
            }
        }
        info
    };
    folders(plan).map(info).collect()
}
