//! Bundles and charts, which may come from untrusted sources.

use std::sync::LazyLock;

use bundle::signature::PublicKey;
use parity::TextFiles;

/// The key of the signed bundle in `tests/data`.
static KEY: LazyLock<PublicKey> = LazyLock::new(|| {
    PublicKey::parse(include_bytes!("../../data/signed/cosign.pub")).expect("a public key")
});

/// Splits files: a name, a line feed, the text, a NUL character.
fn files(text: &str) -> TextFiles {
    let files = text.split('\0').filter_map(|file| file.split_once('\n'));
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Reads the facts of a bundle. Each deployer's layout starts with a file of its own.
pub(crate) fn bundle(text: &str) {
    drop(parity::read_facts(&files(text)));
}

/// Reads a public key, and a signature that is never valid.
pub(crate) fn signature(text: &str) {
    drop(PublicKey::parse(text.as_bytes()));
    assert!(KEY.check(text.as_bytes(), b"not signed").is_err());
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
