//! What came of a recipe.

use std::path::PathBuf;

use bundle::WriteSummary;
use bundle::info::ReleaseInfo;
use contract::exit::ExitCode;
use deployer::Deployer;
use diagnostics::diagnostic::Diagnostics;

/// One recipe and its bundles.
pub(super) struct RenderOutcome {
    /// The recipe as it was named on the command line, or the file of the directory.
    pub(super) file: String,
    /// `metadata.name`, if it could be read.
    pub(super) name: Option<String>,
    /// What is not as it should be, in the recipe's own text.
    pub(super) findings: Diagnostics,
    /// What the user should know and no error says.
    pub(super) notes: Vec<String>,
    /// The releases, as `bundle-info.yaml` has them.
    pub(super) releases: Vec<ReleaseInfo>,
    /// What each release is, as a line for people.
    pub(super) lines: Vec<String>,
    /// Why there is no bundle at all.
    pub(super) failure: Option<RenderFailure>,
    /// One a deployer.
    pub(super) bundles: Vec<RenderedBundle>,
}

/// One bundle.
pub(super) struct RenderedBundle {
    pub(super) deployer: Deployer,
    /// Where it stands, as the user calls it.
    pub(super) directory: PathBuf,
    /// `None`: the recipe failed before any bundle could be made.
    pub(super) result: Option<Result<WriteSummary, RenderFailure>>,
}

/// Why something was not done.
#[derive(Clone)]
pub(super) struct RenderFailure {
    pub(super) message: String,
    pub(super) hint: Option<String>,
    pub(super) code: ExitCode,
}

impl RenderedBundle {
    /// What is to be known of the bundle that stood there before.
    pub(super) fn notes(&self, recipe: &str) -> Vec<String> {
        let Some(Ok(written)) = &self.result else { return Vec::new() };
        let other = written.other.as_ref().map(|old| {
            let (old, name, deployer) = (&old.recipe, &old.deployer, self.deployer);
            format!(
                "a bundle of recipe `{old}` for {name} stood in `{}`; it gave way to this one of `{recipe}` for {deployer}",
                self.directory.display()
            )
        });
        let left_over = written.left_over.as_ref().map(|path| format!("the old bundle could not be removed: `{}`", path.display()));
        other.into_iter().chain(left_over).collect()
    }
}

impl RenderOutcome {
    /// Everything that failed: the recipe, else some of its bundles.
    pub(super) fn failures(&self) -> impl Iterator<Item = &RenderFailure> {
        let bundles = self.bundles.iter().filter_map(|bundle| bundle.result.as_ref()?.as_ref().err());
        self.failure.iter().chain(bundles)
    }

    /// What people call the recipe.
    pub(super) fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.file)
    }
}
