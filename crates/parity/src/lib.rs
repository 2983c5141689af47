//! Reads the files of a bundle back into facts that are comparable between deployers, and compares
//! bundles.
//!
//! This crate does not depend on the crates that write the files. Each deployer has a reader, which
//! converts its files into common types (`declared`). Charts and values files are read in the same
//! way for all deployers (`chart`, `values`). A fact that a deployer cannot express is an explicit
//! [`DeployerFact::NotExpressible`], which equals any value and is always listed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

pub mod compare;
pub mod facts;
pub mod files;

mod application;
mod argocd;
mod argocd_helm;
mod chart;
mod declared;
mod flux;
mod helm;
mod helmfile;
mod hook;
mod order;
mod parsed_yaml;
mod resolve;
mod shell;
mod values;

pub use compare::{FactDifference, ParityReport, compare};
pub use facts::{BundleFacts, DeployerFact, HookFacts, ReleaseFacts};
pub use files::TextFiles;

use declared::DeclaredBundle;
use resolve::resolve_release;

/// Reads the files of one deployer.
struct DeployerReader {
    /// The deployer's name.
    deployer: &'static str,
    /// The file that identifies it.
    sign: &'static str,
    /// Reads the declarations of the files.
    read: fn(&TextFiles) -> Result<DeclaredBundle, ReadbackError>,
}

/// The table of readers. A new deployer needs a reader and a row here.
const READERS: &[DeployerReader] = &[
    DeployerReader { deployer: "helm", sign: helm::DEPLOY, read: helm::read_bundle },
    DeployerReader { deployer: "helmfile", sign: helmfile::HELMFILE, read: helmfile::read_bundle },
    DeployerReader { deployer: "flux", sign: flux::KUSTOMIZATION, read: flux::read_bundle },
    DeployerReader { deployer: "argocd", sign: argocd::ROOT, read: argocd::read_bundle },
    DeployerReader {
        deployer: "argocd-helm",
        sign: argocd_helm::CHART,
        read: argocd_helm::read_bundle,
    },
];

/// Why files cannot be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadbackError {
    /// The files are not those of any deployer.
    #[error("no deployer's main file found: expected one of {}", signs())]
    NoDeployer,
    /// The files belong to several deployers.
    #[error("found files of several deployers: {}", .0.join(", "))]
    SeveralDeployers(Vec<&'static str>),
    /// A file that the deployer requires is missing.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A file cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
}

/// The bundle's own data, read here only for the needs of releases, which no deployer declares
/// completely.
const INFO: &str = "bundle-info.yaml";

#[derive(Default, Deserialize)]
struct PromisedFacts {
    #[serde(default)]
    releases: Vec<PromisedRelease>,
}

#[derive(Deserialize)]
struct PromisedRelease {
    name: String,
    #[serde(default)]
    needs: Vec<String>,
}

fn signs() -> String {
    READERS.iter().map(|reader| format!("`{}`", reader.sign)).collect::<Vec<_>>().join(", ")
}

/// Reads the facts of a bundle.
///
/// # Errors
/// See [`ReadbackError`]. A reference to a missing file is not an error but a fact.
pub fn read_facts(files: &TextFiles) -> Result<BundleFacts, ReadbackError> {
    let found: Vec<&DeployerReader> =
        READERS.iter().filter(|reader| files.get(reader.sign).is_some()).collect();
    let reader = match found.as_slice() {
        [] => return Err(ReadbackError::NoDeployer),
        [reader] => reader,
        several => {
            return Err(ReadbackError::SeveralDeployers(
                several.iter().map(|reader| reader.deployer).collect(),
            ));
        }
    };
    let promised: PromisedFacts = files.yaml(INFO)?.unwrap_or_default();
    let mut releases: BTreeMap<String, ReleaseFacts> = BTreeMap::new();
    let declared = (reader.read)(files)?;
    for release in declared.releases {
        let needs = promised
            .releases
            .iter()
            .find(|promised| promised.name == release.name)
            .map_or(&[][..], |promised| &promised.needs);
        releases.insert(release.name.clone(), resolve_release(files, release, needs)?);
    }
    let known: BTreeSet<String> = releases.keys().cloned().collect();
    for release in releases.values_mut() {
        release.unknown_needs = release.after.releases.difference(&known).cloned().collect();
    }
    let timeout_of_all_is_sufficient =
        declared.timeout_of_all.is_none_or(|seconds| seconds >= order::longest_seconds(&releases));
    Ok(BundleFacts {
        deployer: reader.deployer.to_owned(),
        file: reader.sign.to_owned(),
        timeout_of_all_is_sufficient,
        releases,
    })
}
