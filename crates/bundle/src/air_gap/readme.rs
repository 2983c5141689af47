//! The page of an air-gap archive: the commands that copy the images, deploy the bundle and render
//! it again.

use std::collections::BTreeMap;

use serde::Serialize;

use super::charts::NeededChart;
use super::error::AirGapError;
use super::render_options::{RenderOption, render_options};
use crate::info::BundleInfo;
use deployer::template::TemplateSet;
use deployer::{Deployer, SourceNeed};

const NAME: &str = "README.md.j2";
const SOURCE: &str = include_str!("../../../../templates/air-gap/README.md.j2");

#[derive(Serialize)]
struct AirGapPage<'a> {
    recipe: &'a str,
    deployer: &'a str,
    program: &'a str,
    /// The option of `bundle verify` for a signed bundle.
    key_option: Option<&'a str>,
    /// Whether the deployer runs where the archive is, and not in the cluster.
    runs_here: bool,
    /// Whether the bundle names the registry of the images.
    is_mirrored: bool,
    /// Whether the bundle names a registry for each chart.
    has_registries: bool,
    charts: Vec<PageChart<'a>>,
    repositories: Vec<PageRepository<'a>>,
    options: Vec<RenderOption>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct PageChart<'a> {
    file: String,
    /// The registry that the bundle names for it.
    registry: Option<&'a str>,
}

#[derive(Serialize)]
struct PageRepository<'a> {
    name: &'a str,
    /// The registry that the bundle names instead of it.
    registry: Option<&'a str>,
}

/// Returns the page. `key_option`: the option of `bundle verify` for a signed bundle.
///
/// # Errors
/// The bundle is for an unknown deployer, or the page cannot be rendered, which is a bug.
pub(super) fn readme(
    info: &BundleInfo,
    key_option: Option<&str>,
    charts: &[NeededChart],
    notes: &[String],
) -> Result<String, AirGapError> {
    let deployer = info.deployer.parse::<Deployer>();
    let deployer = deployer.map_err(|error| AirGapError::Origin(error.to_string()))?;
    let registry = |repository: &str| {
        let address = info.chart_repositories.get(repository)?;
        address.starts_with("oci://").then_some(address.as_str())
    };
    let repositories: BTreeMap<&str, Option<&str>> = charts
        .iter()
        .map(|chart| (chart.repository.as_str(), registry(&chart.repository)))
        .collect();
    let page = AirGapPage {
        recipe: &info.recipe.name,
        deployer: deployer.name,
        program: &info.rendered_by,
        key_option,
        runs_here: deployer.source == SourceNeed::None,
        is_mirrored: !info.registry_mirrors.is_empty(),
        has_registries: repositories.values().all(Option::is_some),
        charts: charts
            .iter()
            .map(|chart| PageChart { file: chart.file(), registry: registry(&chart.repository) })
            .collect(),
        repositories: repositories
            .into_iter()
            .map(|(name, registry)| PageRepository { name, registry })
            .collect(),
        options: render_options(info),
        notes,
    };
    Ok(TemplateSet::new(&[(NAME, SOURCE)])?.render(NAME, &page)?)
}
