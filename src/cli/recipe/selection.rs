//! The options that select recipes of the library.

use crate::printer::Printer;
use recipe::criteria::{LibraryRecipe, library, select};
use recipe::model::RecipeCriteria;

/// What the recipes must be for.
#[derive(Debug, Default, clap::Args)]
pub(super) struct CriteriaArguments {
    /// The Kubernetes service, such as `eks`
    #[arg(long)]
    service: Option<String>,
    /// The GPU, such as `gb200`
    #[arg(long, value_name = "GPU")]
    accelerator: Option<String>,
    /// The workloads, such as `training`
    #[arg(long)]
    intent: Option<String>,
    /// The operating system of the GPU nodes, such as `ubuntu`
    #[arg(long)]
    os: Option<String>,
}

impl CriteriaArguments {
    /// Returns the recipes of the library that have every criterion. Prints an error and returns
    /// `None` if there is none.
    pub(super) fn recipes(self, printer: &mut Printer) -> Option<Vec<LibraryRecipe>> {
        let Self { service, accelerator, intent, os } = self;
        let recipes = match library() {
            Ok(recipes) => recipes,
            Err(findings) => {
                super::note(&findings, printer);
                return None;
            }
        };
        match select(&recipes, &RecipeCriteria { service, accelerator, intent, os }) {
            Ok(found) => Some(found),
            Err(error) => {
                printer.error(&error.to_string(), Some(&error.hint()));
                None
            }
        }
    }
}
