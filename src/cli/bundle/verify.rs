//! `gpu-rollout bundle verify`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::format::OutputFormat;
use crate::printer::Printer;
use bundle::{BundleFinding, VerifyError, has_signature, verify, verify_signed};
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
    /// Public key of the signer, in PEM format; the bundle must then have a valid signature by this
    /// key, made with `cosign sign-blob` [default: the signature is not checked]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Signature to check [default: `checksums.txt.sigstore.json` in the bundle]
    #[arg(long, value_name = "FILE", requires = "key")]
    signature: Option<PathBuf>,
    /// Output format: one finding per line, or one JSON document with the findings and whether the
    /// signature was checked
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
}

/// What is known about the signature of a bundle. A signature that is not valid is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum SignatureState {
    /// The bundle has no signature, and no key was named.
    None,
    /// The bundle has a signature, and no key was named.
    NotChecked,
    /// The signature matches the key.
    Valid,
}

/// The document of `-o json`.
#[derive(Serialize)]
struct VerifyDocument<'a> {
    signature: SignatureState,
    findings: Vec<VerifyEntry<'a>>,
}

/// One finding.
#[derive(Serialize)]
struct VerifyEntry<'a> {
    kind: &'static str,
    path: &'a str,
    reason: Option<String>,
}

impl VerifyArguments {
    /// Runs the command. Prints one finding per line to standard output.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { directory, key, signature, output } = self;
        let (state, verified) = match &key {
            Some(key) => {
                (SignatureState::Valid, verify_signed(&directory, key, signature.as_deref()))
            }
            None => (unchecked(&directory), verify(&directory).map_err(VerifyError::from)),
        };
        let findings = match verified {
            Ok(findings) => findings,
            Err(error) => {
                printer.error(&error.to_string(), Some(error.hint()));
                return ExitCode::Input;
            }
        };
        match output {
            OutputFormat::Text => print_text(&directory, state, &findings, printer),
            OutputFormat::Json => {
                let written = printer.json(&document(state, &findings));
                if written != ExitCode::Success {
                    return written;
                }
            }
        }
        if findings.is_empty() { ExitCode::Success } else { ExitCode::Input }
    }
}

/// Returns the state of the signature if no key was named.
fn unchecked(directory: &Path) -> SignatureState {
    if has_signature(directory) { SignatureState::NotChecked } else { SignatureState::None }
}

fn document(signature: SignatureState, findings: &[BundleFinding]) -> VerifyDocument<'_> {
    let entries = findings.iter().map(|finding| VerifyEntry {
        kind: finding.kind(),
        path: finding.path(),
        reason: finding.reason(),
    });
    VerifyDocument { signature, findings: entries.collect() }
}

fn print_text(
    directory: &Path,
    state: SignatureState,
    findings: &[BundleFinding],
    printer: &mut Printer,
) {
    let bundle = directory.display();
    match state {
        SignatureState::None => {}
        SignatureState::NotChecked => printer.note(&format!(
            "note: `{bundle}` has a signature, which was not checked: check it with --key FILE"
        )),
        SignatureState::Valid => {
            printer.note(&format!("the signature of `{bundle}` matches the key"));
        }
    }
    if findings.is_empty() {
        printer.note(&format!("`{bundle}` has not been edited"));
        return;
    }
    for finding in findings {
        printer.data(&format!("{finding}\n"));
    }
    if findings.iter().any(BundleFinding::is_broken) {
        printer.error(
            &format!("`{bundle}` was edited, and its parts are no longer consistent"),
            Some(
                "change the recipe and render again with --force, which updates hooks, CRDs and timeouts",
            ),
        );
    } else {
        printer.error(&format!("`{bundle}` was edited"), Some(edit_hint(findings)));
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
