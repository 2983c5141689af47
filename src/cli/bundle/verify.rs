//! `gpu-rollout bundle verify`.

use std::path::PathBuf;

use crate::printer::Printer;
use bundle::{BundleError, BundleFinding, verify};
use contract::exit::ExitCode;
use deployer::layout::VALUES;

/// Arguments of `gpu-rollout bundle verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArguments {
    /// Directory of the bundle
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl VerifyArguments {
    /// Runs the command. Prints one finding per line to standard output.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { directory } = self;
        let findings = match verify(&directory) {
            Ok(findings) => findings,
            Err(error) => {
                let hint = match &error {
                    BundleError::Incomplete { .. } => "render it again with --force",
                    BundleError::NoBundle { .. }
                    | BundleError::Read { .. }
                    | BundleError::File { .. } => {
                        "name a directory that `gpu-rollout bundle render` wrote"
                    }
                };
                printer.error(&error.to_string(), Some(hint));
                return ExitCode::Input;
            }
        };
        let bundle = directory.display();
        if findings.is_empty() {
            printer.note(&format!("`{bundle}` has not been edited"));
            return ExitCode::Success;
        }
        for finding in &findings {
            printer.data(&format!("{finding}\n"));
        }
        let is_broken = |finding: &BundleFinding| matches!(finding, BundleFinding::Promise { .. });
        if findings.iter().any(is_broken) {
            printer.error(
                &format!("`{bundle}` was edited, and its parts are no longer consistent"),
                Some(
                    "change the recipe and render again with --force, which updates hooks, CRDs and timeouts",
                ),
            );
        } else {
            let is_values = |finding: &BundleFinding| finding.path().ends_with(VALUES);
            let hint = "edited values take effect and fire the hook, but `bundle render --force` discards them; move them into the recipe";
            printer.error(
                &format!("`{bundle}` was edited"),
                findings.iter().any(is_values).then_some(hint),
            );
        }
        ExitCode::Input
    }
}
