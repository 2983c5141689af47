//! `gpu-rollout bundle verify`.

use std::path::PathBuf;

use crate::printer::Printer;
use bundle::{BundleFinding, verify};
use contract::exit::ExitCode;
use deployer::layout::{SETTINGS, VALUES};

/// What to do about edits that break nothing: the file that was edited, and the hint. The first row
/// with an edited file applies.
const HINTS: [(&str, &str); 2] = [
    (
        VALUES,
        "edited values take effect and fire the hook, but `bundle render --force` discards them; move them into the recipe",
    ),
    (
        SETTINGS,
        "the settings of a hook (`rollout.yaml`) are made from the recipe: change the recipe and render again with --force",
    ),
];
/// What to do about edits of other files.
const OTHER_HINT: &str = "if you made these edits on purpose, you can deploy them; `bundle render --force` discards them, so move what is to stay into the recipe";

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
                printer.error(&error.to_string(), Some(error.hint()));
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
            printer.error(&format!("`{bundle}` was edited"), Some(edit_hint(&findings)));
        }
        ExitCode::Input
    }
}

/// Returns the hint about edits that break nothing.
fn edit_hint(findings: &[BundleFinding]) -> &'static str {
    let is_edited = |file: &str| findings.iter().any(|finding| finding.path().ends_with(file));
    let row = HINTS.iter().find(|(file, _)| is_edited(file));
    row.map_or(OTHER_HINT, |(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_has_its_hint() {
        let (values, settings) =
            ("004-gpu-operator/values.yaml", "005-gpu-operator-post/rollout.yaml");
        let cases: [(&[&str], &str); 4] = [
            (&["README.md"], OTHER_HINT),
            (&["README.md", settings], HINTS[1].1),
            (&[values], HINTS[0].1),
            (&[values, settings], HINTS[0].1),
        ];
        for (edited, expected) in cases {
            let findings: Vec<BundleFinding> =
                edited.iter().map(|path| BundleFinding::Changed((*path).to_owned())).collect();
            assert_eq!(edit_hint(&findings), expected, "{edited:?}");
        }
    }
}
