//! The files of a bundle → what they mean: facts that are comparable between deployers, and what differs between bundles.
//!
//! Nothing here knows how the files were written. Each deployer has a reader, which says in one vocabulary ([`statement`]) what its own files
//! state of each release; what stands in the charts and values files is read in the same way for all of them ([`mod@chart`],
//! [`mod@values`]). What a deployer has no words for is an explicit [`DeployerFact::NotExpressible`], which equals anything and is always listed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

pub mod chart;
pub mod compare;
pub mod files;
pub mod hook;
pub mod model;
pub mod order;
pub mod statement;
pub mod values;

mod application;
mod argocd;
mod argocd_helm;
mod flux;
mod helm;
mod helmfile;
mod look;
mod shell;

pub use compare::{FactDifference, Parity, compare};
pub use files::TextFiles;
pub use model::{BundleFacts, DeployerFact, ReleaseFacts};

use statement::BundleStatements;

/// Reads the files of one deployer.
struct DeployerReader {
    /// The deployer's name.
    deployer: &'static str,
    /// The file by which it is known.
    sign: &'static str,
    /// What the files state.
    read: fn(&TextFiles) -> Result<BundleStatements, ReadbackError>,
}

/// The table: a new deployer has its reader and its row here.
const READERS: &[DeployerReader] = &[
    DeployerReader { deployer: "helm", sign: helm::DEPLOY, read: helm::statements },
    DeployerReader { deployer: "helmfile", sign: helmfile::HELMFILE, read: helmfile::statements },
    DeployerReader { deployer: "flux", sign: flux::KUSTOMIZATION, read: flux::statements },
    DeployerReader { deployer: "argocd", sign: argocd::ROOT, read: argocd::statements },
    DeployerReader { deployer: "argocd-helm", sign: argocd_helm::CHART, read: argocd_helm::statements },
];

/// Why files have no facts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadbackError {
    /// No deployer's files.
    #[error("there is no file that a deployer starts from: none of {}", signs())]
    NoDeployer,
    /// The files of several deployers.
    #[error("there are files of several deployers: {}", .0.join(", "))]
    SeveralDeployers(Vec<&'static str>),
    /// A file that is not there although the deployer cannot do without.
    #[error("there is no `{0}`")]
    Missing(String),
    /// A file that cannot be read as what it should be.
    #[error("`{path}` cannot be read: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
}

/// What a bundle says of itself; here only what must come before what, which no deployer states in full.
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

/// The facts of a bundle.
///
/// # Errors
/// See [`ReadbackError`]. A reference to a file that is not there is no error but a fact.
pub fn facts(files: &TextFiles) -> Result<BundleFacts, ReadbackError> {
    let found: Vec<&DeployerReader> = READERS.iter().filter(|reader| files.get(reader.sign).is_some()).collect();
    let reader = match found.as_slice() {
        [] => return Err(ReadbackError::NoDeployer),
        [reader] => reader,
        several => return Err(ReadbackError::SeveralDeployers(several.iter().map(|reader| reader.deployer).collect())),
    };
    let promised: PromisedFacts = files.yaml(INFO)?.unwrap_or_default();
    let mut releases: BTreeMap<String, ReleaseFacts> = BTreeMap::new();
    let statements = (reader.read)(files)?;
    for statement in statements.releases {
        let needs = promised.releases.iter().find(|release| release.name == statement.name).map_or(&[][..], |release| &release.needs);
        releases.insert(statement.name.clone(), statement::release(files, statement, needs)?);
    }
    let known: BTreeSet<String> = releases.keys().cloned().collect();
    for release in releases.values_mut() {
        release.unknown_needs = release.after.releases.difference(&known).cloned().collect();
    }
    let timeout_of_all_is_sufficient = statements.timeout_of_all.is_none_or(|seconds| seconds >= order::longest_seconds(&releases));
    Ok(BundleFacts { deployer: reader.deployer.to_owned(), file: reader.sign.to_owned(), timeout_of_all_is_sufficient, releases })
}
