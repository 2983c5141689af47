//! Hostile texts, and helpers for the files of bundles. The tests of `gpu-rollout bundle render`
//! also include this file.

use std::fs;
use std::path::Path;

/// Texts that would be a template, a document, a key, an option, a command or a comment in some
/// language.
pub(crate) const PAYLOADS: &[&str] = &[
    "{{ exec \"touch\" (list \"injected\") }}",
    "{{ fail \"injected\" }}",
    "x\n---\nkind: Injected",
    "x\nkey: injected",
    "-o",
    "--post-renderer=injected",
    "'",
    "\"",
    "it's \"quoted\"",
    "`touch injected`",
    "$(touch injected)",
    "${INJECTED}",
    "ref+exec://touch/injected",
    "ref+echo://x",
    "x; touch injected",
    "x | touch injected",
    "x && touch injected",
    "\t",
    "\ta\nb",
    "x\r\ny",
    "\u{0}",
    "\u{1b}[31m",
    "\u{a0}",
    "\u{85}x",
    "x\u{2028}y",
    "\u{feff}x",
    "# x",
    "x # y",
    "*anchor",
    "&anchor x",
    "!!int 1",
    "|",
    "[x](https://injected.example)",
    "<b>x</b>",
    "../x",
    "yes",
    "0644",
];

/// Whether a file is called YAML.
pub(crate) fn is_yaml(path: &str) -> bool {
    // The recipe's own templates are evaluated only by Helm.
    !path.contains("/files/")
        && Path::new(path).extension().is_some_and(|extension| extension == "yaml")
}

/// Whether a file contains Helm's template syntax.
pub(crate) fn is_helm_template(path: &str) -> bool {
    const TEMPLATES: [&str; 4] = [
        "-pre/templates/",
        "-post/templates/",
        "/templates/objects.yaml",
        "/templates/manifests.yaml",
    ];
    TEMPLATES.iter().any(|part| path.contains(part))
        // The umbrella chart of Argo CD.
        || path.starts_with("templates/")
}

/// The files below a directory: path in their bundle, and text.
pub(crate) fn files(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else {
                // DIR/recipe/deployer/…
                let name = entry
                    .strip_prefix(directory)
                    .unwrap()
                    .components()
                    .skip(2)
                    .map(|part| part.as_os_str().to_string_lossy().into_owned())
                    .collect::<Vec<_>>()
                    .join("/");
                found.push((name, fs::read_to_string(&entry).unwrap()));
            }
        }
    }
    found
}
