//! Releases → the files of a deployer. A deployer decides nothing: all meaning stands in the plan.
//!
//! One module a deployer; they never import each other. What they share: [`mod@file`], [`layout`] (folders), [`chart`] (local charts),
//! [`mod@template`] (the engine).

use std::fmt;
use std::str::FromStr;

pub mod chart;
pub mod file;
pub mod helm;
pub mod layout;
pub mod template;

pub use file::File;
pub use template::RenderError;

use crate::release::Plan;

/// What deploys a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deployer {
    /// The Helm command line, by a script.
    Helm,
}

/// Deployers that are planned for; asking for one is an error that says so.
const NOT_BUILT: [&str; 4] = ["helmfile", "flux", "argocd", "argocd-helm"];

/// Why a text is no [`Deployer`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeployerError {
    /// A deployer that this version cannot render for.
    #[error("deployer `{0}` is not built in this version: the only one is `helm`")]
    NotBuilt(String),
    /// No deployer at all.
    #[error("there is no deployer `{0}`: the only one in this version is `helm`")]
    Unknown(String),
}

impl Deployer {
    /// Every deployer.
    pub const ALL: [Self; 1] = [Self::Helm];

    /// Its name on the command line and in `bundle-info.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Helm => "helm",
        }
    }
}

impl fmt::Display for Deployer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Deployer {
    type Err = DeployerError;

    fn from_str(text: &str) -> Result<Self, DeployerError> {
        match Self::ALL.into_iter().find(|deployer| deployer.name() == text) {
            Some(deployer) => Ok(deployer),
            None if NOT_BUILT.contains(&text) => Err(DeployerError::NotBuilt(text.to_owned())),
            None => Err(DeployerError::Unknown(text.to_owned())),
        }
    }
}

/// What a deployer's files are made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The recipe's name, for people.
    pub recipe: &'a str,
    /// The releases.
    pub plan: &'a Plan,
    /// The hook chart: path and text of each file.
    pub hook_chart: &'a [(&'a str, &'a str)],
}

/// The files of `deployer`, without those that every bundle has.
///
/// # Errors
/// A template does not fit its input, which is a mistake of this program.
pub fn files(deployer: Deployer, input: Input<'_>) -> Result<Vec<File>, RenderError> {
    match deployer {
        Deployer::Helm => helm::files(input),
    }
}
