//! What became of a recipe and its bundles.

use std::path::PathBuf;

use crate::info::ReleaseInfo;
use crate::write::WriteSummary;
use contract::exit::ExitCode;
use deployer::Deployer;
use diagnostics::diagnostic::Diagnostics;

/// One recipe and its bundles.
pub struct RenderOutcome {
    /// The recipe as it was named on the command line, or the file of the directory.
    pub file: String,
    /// `metadata.name`, if it could be read.
    pub name: Option<String>,
    /// What is not as it should be, in the recipe's own text.
    pub findings: Diagnostics,
    /// What the user should know and no error says.
    pub notes: Vec<String>,
    /// The releases, as `bundle-info.yaml` has them.
    pub releases: Vec<ReleaseInfo>,
    /// What each release is, as a line for people.
    pub lines: Vec<String>,
    /// Why there is no bundle at all.
    pub failure: Option<RenderFailure>,
    /// One a deployer.
    pub bundles: Vec<RenderedBundle>,
}

/// One bundle.
pub struct RenderedBundle {
    /// Who deploys it.
    pub deployer: Deployer,
    /// Where it is, as the user calls it.
    pub directory: PathBuf,
    /// `None`: the recipe failed before any bundle could be made.
    pub result: Option<Result<WriteSummary, RenderFailure>>,
}

/// Why something was not done.
#[derive(Clone)]
pub struct RenderFailure {
    /// What failed, and why.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The exit code for it.
    pub code: ExitCode,
}

impl RenderedBundle {
    /// What is worth knowing of the bundle that was there before.
    pub fn notes(&self, recipe: &str) -> Vec<String> {
        let Some(Ok(written)) = &self.result else { return Vec::new() };
        let other = written.other.as_ref().map(|old| {
            let (old, name, deployer) = (&old.recipe, &old.deployer, self.deployer);
            format!(
                "a bundle of recipe `{old}` for {name} stood in `{}`; it gave way to this one of `{recipe}` for {deployer}",
                self.directory.display()
            )
        });
        let left_over = written
            .left_over
            .as_ref()
            .map(|path| format!("the old bundle could not be removed: `{}`", path.display()));
        other.into_iter().chain(left_over).collect()
    }
}

impl RenderOutcome {
    /// Everything that failed: the recipe, else some of its bundles.
    pub fn failures(&self) -> impl Iterator<Item = &RenderFailure> {
        let bundles =
            self.bundles.iter().filter_map(|bundle| bundle.result.as_ref()?.as_ref().err());
        self.failure.iter().chain(bundles)
    }

    /// What people call the recipe.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.file)
    }
}
