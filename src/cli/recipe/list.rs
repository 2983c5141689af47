//! `gpu-rollout recipe list`.

use super::selection::CriteriaArguments;
use crate::cli::format::OutputFormat;
use crate::printer::Printer;
use contract::exit::ExitCode;

/// Lists the recipes of the library that have every criterion.
pub(super) fn list(
    criteria: CriteriaArguments,
    format: OutputFormat,
    printer: &mut Printer,
) -> ExitCode {
    let Some(recipes) = criteria.recipes(printer) else { return ExitCode::Input };
    match format {
        OutputFormat::Text => {
            let width = recipes.iter().map(|recipe| recipe.name.len()).max().unwrap_or(0);
            for recipe in recipes {
                printer.data(&format!("{:width$}  {}\n", recipe.name, recipe.description));
            }
            ExitCode::Success
        }
        OutputFormat::Json => printer.json(&recipes),
    }
}
