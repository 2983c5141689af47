//! The result of rendering a recipe.

use std::path::PathBuf;

use crate::info::{BundleIdentity, ReleaseInfo};
use crate::write::WriteSummary;
use contract::exit::ExitCode;
use deployer::Deployer;

/// One recipe and its bundles.
pub struct RenderOutcome {
    /// The recipe as named on the command line, or its file in the directory.
    pub file: String,
    /// `metadata.name`, if it could be read.
    pub name: Option<String>,
    /// Notes for the user that are not errors.
    pub notes: Vec<String>,
    /// The releases, as in `bundle-info.yaml`.
    pub releases: Vec<ReleaseInfo>,
    /// A description of each release in one line.
    pub lines: Vec<String>,
    /// Why no bundle was rendered.
    pub failure: Option<RenderFailure>,
    /// One bundle for each deployer.
    pub bundles: Vec<RenderedBundle>,
}

/// One bundle.
pub struct RenderedBundle {
    /// The deployer.
    pub deployer: Deployer,
    /// The directory, as the user named it.
    pub directory: PathBuf,
    /// `None` if the recipe failed before any bundle was rendered.
    pub result: Option<Result<WriteSummary, RenderFailure>>,
}

/// Why rendering failed.
#[derive(Clone)]
pub struct RenderFailure {
    /// What failed, and why.
    pub message: String,
    /// A hint for the user.
    pub hint: Option<String>,
    /// The exit code.
    pub code: ExitCode,
}

impl RenderedBundle {
    /// Returns notes about the previous bundle in the directory.
    pub fn notes(&self, recipe: &str) -> Vec<String> {
        let Some(Ok(written)) = &self.result else { return Vec::new() };
        let new =
            BundleIdentity { recipe: recipe.to_owned(), deployer: self.deployer.name.to_owned() };
        written.notes(&self.directory, &new)
    }
}

impl RenderOutcome {
    /// Returns all failures: that of the recipe, or those of its bundles.
    pub fn failures(&self) -> impl Iterator<Item = &RenderFailure> {
        let bundles =
            self.bundles.iter().filter_map(|bundle| bundle.result.as_ref()?.as_ref().err());
        self.failure.iter().chain(bundles)
    }

    /// Returns the recipe's name for messages.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.file)
    }
}
