//! Releases → the files of a deployer. A deployer decides nothing: all meaning stands in the plan.
//!
//! One module a deployer; they never import each other. What they share: [`mod@file`], [`layout`] (folders), [`chart`] (local charts),
//! [`mod@template`] (the engine), [`language`] (how each language is written), [`argocd_application`] (Argo CD's Applications).

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
pub mod language;
pub mod layout;
pub mod source;
pub mod template;

pub use file::BundleFile;
pub use language::shell_word;
pub use source::BundleSource;
pub use template::RenderError;

use release::ReleasePlan;

/// What deploys a bundle: one row of the table of deployers.
#[derive(Clone, Copy)]
pub struct Deployer {
    /// Its name on the command line and in `bundle-info.yaml`.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Where the cluster must be able to read the bundle's files from, if it reads them itself.
    pub source: SourceNeed,
    /// What to do with the bundle of a recipe: the lines behind "next", for a directory that is written as a shell reads it.
    pub next: fn(&str, &str, Option<&BundleSource>) -> Vec<String>,
    /// What the user should know of how it reads a source, and no error says.
    pub notes: fn(&BundleSource) -> Vec<String>,
    /// Writes its files.
    render: fn(DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError>,
}

/// Whether a deployer reads the bundle from a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceNeed {
    /// It reads the bundle's directory; a repository would have no effect.
    None,
    /// The files name the repository.
    Rendered,
    /// The repository is named when the bundle is installed.
    AtInstall,
}

/// The table: a new deployer is a module and its row here.
pub const DEPLOYERS: &[Deployer] = &[
    Deployer {
        name: "helm",
        description: "a shell script that runs the Helm command line",
        source: SourceNeed::None,
        next: helm::next,
        notes: no_notes,
        render: helm::files,
    },
    Deployer {
        name: "helmfile",
        description: "a helmfile.yaml, deployed with `helmfile sync`",
        source: SourceNeed::None,
        next: helmfile::next,
        notes: no_notes,
        render: helmfile::files,
    },
    Deployer {
        name: "flux",
        description: "HelmReleases that Flux reconciles from a Git repository or an OCI registry",
        source: SourceNeed::Rendered,
        next: flux::next,
        notes: flux::notes,
        render: flux::files,
    },
    Deployer {
        name: "argocd",
        description: "Argo CD: an Application of Applications",
        source: SourceNeed::Rendered,
        next: argocd::next,
        notes: no_notes,
        render: argocd::files,
    },
    Deployer {
        name: "argocd-helm",
        description: "Argo CD: an umbrella chart that makes the Applications",
        source: SourceNeed::AtInstall,
        next: argocd_helm::next,
        notes: no_notes,
        render: argocd_helm::files,
    },
];

/// For a deployer that takes every source as it is written.
fn no_notes(_: &BundleSource) -> Vec<String> {
    Vec::new()
}

/// Why a text is no [`Deployer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no deployer `{name}`: the deployers are {}", names().join(", "))]
pub struct DeployerError {
    /// The text.
    name: String,
}

/// The names of all deployers, in the table's order.
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

/// What a deployer's files are made from.
#[derive(Clone, Copy, Debug)]
pub struct DeployerInput<'a> {
    /// The recipe's name, for people.
    pub recipe: &'a str,
    /// The releases.
    pub plan: &'a ReleasePlan,
    /// The hook chart: path and text of each file.
    pub hook_chart: &'a [(&'a str, &'a str)],
    /// Where the deployer reads the bundle from; there for every deployer that needs it.
    pub source: Option<&'a BundleSource>,
}

/// The files of `deployer`, without those that every bundle has.
///
/// # Errors
/// The deployer needs a source and there is none; or a template does not fit its input, which is a mistake of this program.
pub fn files(deployer: Deployer, input: DeployerInput<'_>) -> Result<Vec<BundleFile>, RenderError> {
    if deployer.source == SourceNeed::Rendered && input.source.is_none() {
        return Err(RenderError::NoSource(deployer.name));
    }
    (deployer.render)(input)
}
