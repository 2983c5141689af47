//! Writes the files of a deployer from planned releases. A deployer decides nothing: the plan
//! contains all meaning.
//!
//! Each deployer is a module, and these modules never import each other. They share [`mod@file`],
//! [`layout`] (folders), [`chart`] (local charts), [`mod@template`] (the template engine),
//! [`template_language`] (writers for each language) and [`argocd_application`] (Argo CD's
//! Applications).

use std::fmt;
use std::str::FromStr;

pub mod argocd;
pub mod argocd_application;
pub mod argocd_helm;
pub mod chart;
pub mod file;
pub mod flux;
pub mod helm;
pub mod helmfile;
pub mod layout;
pub mod source;
pub mod template;
pub mod template_language;
pub mod verification;

pub use file::BundleFile;
pub use source::BundleSource;
pub use template::RenderError;
pub use template_language::shell_word;

use contract::file_content::FileContent;
use release::model::ReleaseKind;
use release::{Release, ReleasePlan};

/// A deployer: one row of the table of deployers.
#[derive(Clone, Copy)]
pub struct Deployer {
    /// The deployer's name on the command line and in `bundle-info.yaml`.
    pub name: &'static str,
    /// A description in one line.
    pub description: &'static str,
    /// Whether the deployer reads the bundle's files from a repository.
    pub source: SourceNeed,
    /// Whether the deployer verifies signatures of what it reads, if its files name the signers.
    pub verifies_signatures: bool,
    /// Returns the next steps for a bundle, from recipe name, directory (quoted for a shell) and
    /// source.
    pub next: fn(&str, &str, Option<&BundleSource>) -> Vec<String>,
    /// Returns notes about how the deployer reads a source.
    pub notes: fn(&BundleSource) -> Vec<String>,
    /// Writes the deployer's files.
    render: fn(DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError>,
}

/// Whether a deployer reads the bundle from a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceNeed {
    /// It reads the bundle's directory; a repository would have no effect.
    None,
    /// The files name the repository.
    Rendered,
    /// The user names the repository when installing the bundle.
    AtInstall,
}

/// The table of deployers. A new deployer is a module and a row here.
pub const DEPLOYERS: &[Deployer] = &[
    Deployer {
        name: "helm",
        description: "a shell script that runs the Helm command line",
        source: SourceNeed::None,
        verifies_signatures: false,
        next: helm::next,
        notes: no_notes,
        render: helm::files,
    },
    Deployer {
        name: "helmfile",
        description: "a helmfile.yaml, deployed with `helmfile sync`",
        source: SourceNeed::None,
        verifies_signatures: false,
        next: helmfile::next,
        notes: no_notes,
        render: helmfile::files,
    },
    Deployer {
        name: "flux",
        description: "HelmReleases that Flux reconciles from a Git repository or an OCI registry",
        source: SourceNeed::Rendered,
        verifies_signatures: true,
        next: flux::next,
        notes: flux::notes,
        render: flux::files,
    },
    Deployer {
        name: "argocd",
        description: "Argo CD: an Application of Applications",
        source: SourceNeed::Rendered,
        verifies_signatures: false,
        next: argocd::next,
        notes: no_notes,
        render: argocd::files,
    },
    Deployer {
        name: "argocd-helm",
        description: "Argo CD: an umbrella chart that creates the Applications",
        source: SourceNeed::AtInstall,
        verifies_signatures: false,
        next: argocd_helm::next,
        notes: no_notes,
        render: argocd_helm::files,
    },
];

/// Returns no notes, for a deployer that uses every source unchanged.
fn no_notes(_: &BundleSource) -> Vec<String> {
    Vec::new()
}

/// Why a text is not a [`Deployer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown deployer `{name}`; the deployers are {}", names().join(", "))]
pub struct DeployerError {
    /// The text.
    name: String,
}

/// Returns the names of all deployers, in the table's order.
pub fn names() -> Vec<&'static str> {
    DEPLOYERS.iter().map(|deployer| deployer.name).collect()
}

impl fmt::Debug for Deployer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl fmt::Display for Deployer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

impl FromStr for Deployer {
    type Err = DeployerError;

    fn from_str(text: &str) -> Result<Self, DeployerError> {
        let found = DEPLOYERS.iter().find(|deployer| deployer.name == text);
        found.copied().ok_or_else(|| DeployerError { name: text.to_owned() })
    }
}

/// The input for a deployer's files.
#[derive(Clone, Copy, Debug)]
pub struct DeployerInput<'a> {
    /// The recipe's name.
    pub recipe: &'a str,
    /// The releases.
    pub plan: &'a ReleasePlan,
    /// The hook chart: path and content of each file.
    pub hook_chart: &'a [(&'static str, FileContent)],
    /// The source from which the deployer reads the bundle. Every deployer that needs a source gets
    /// one.
    pub source: Option<&'a BundleSource>,
}

/// Checks that a bundle has no kustomization, for a deployer that only runs Helm.
fn refuse_kustomizations(deployer: &'static str, plan: &ReleasePlan) -> Result<(), RenderError> {
    let is_one = |release: &&Release| matches!(release.kind, ReleaseKind::Kustomization(_));
    match plan.releases.iter().find(is_one) {
        None => Ok(()),
        Some(release) => Err(RenderError::unable(
            deployer,
            format!(
                "cannot deploy `{}`: it is a kustomization, and this deployer deploys only Helm charts",
                release.name
            ),
            "render the bundle for Flux or Argo CD, or set `enabled: false` for the component and apply it yourself",
        )),
    }
}

/// Returns the files of `deployer`, without those that every bundle has.
///
/// # Errors
/// The deployer needs a source and there is none, or a template does not fit its input, which is a
/// bug.
pub fn files(deployer: Deployer, input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    if deployer.source == SourceNeed::Rendered && input.source.is_none() {
        return Err(RenderError::NoSource(deployer.name));
    }
    (deployer.render)(input)
}
