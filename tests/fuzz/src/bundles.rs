//! Bundles and charts, which may come from untrusted sources.

use parity::TextFiles;

/// Splits files: a name, a line feed, the text, a NUL character.
fn files(text: &str) -> TextFiles {
    let files = text.split('\0').filter_map(|file| file.split_once('\n'));
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Reads the facts of a bundle. Each deployer's layout starts with a file of its own.
pub(crate) fn bundle(text: &str) {
    drop(parity::read_facts(&files(text)));
}

/// Reads a manifest with Go templates.
pub(crate) fn manifest(text: &str) {
    drop(recipe::manifests::kinds(text));
    drop(recipe::manifests::namespaces(text));
    recipe::manifests::is_crds(text);
    recipe::manifests::time_of(text);
    recipe::manifests::fixed_hook(text);
    drop(release::images::of_template("release", "file.yaml", text));
}
