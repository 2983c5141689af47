//! Bundles and charts, which may come from untrusted sources.

use std::io::Write as _;
use std::path::{Component, Path};
use std::sync::LazyLock;

use archive::ArchiveLimits;
use bundle::chart_package::identity;
use bundle::package::unpack;
use bundle::signature::PublicKey;
use bundle::{MAX_BYTES, MAX_ENTRIES};
use flate2::Compression;
use flate2::write::GzEncoder;
use parity::TextFiles;
use tar::{Builder, Header};

/// The key of the signed bundle in `tests/data`.
static KEY: LazyLock<PublicKey> = LazyLock::new(|| {
    PublicKey::parse(include_bytes!("../../data/signed/cosign.pub")).expect("a public key")
});

/// Splits files: a name, a line feed, the text, a NUL character.
fn files(text: &str) -> TextFiles {
    let files = text.split('\0').filter_map(|file| file.split_once('\n'));
    files.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// Returns the files as a tar archive. Other writers refuse paths that lead out of it; longer paths
/// than a header has are cut off.
fn tar(files: &TextFiles) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = Header::new_gnu();
        for (to, from) in header.as_old_mut().name.iter_mut().zip(path.bytes()) {
            *to = from;
        }
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        header.set_cksum();
        builder.append(&header, text.as_bytes()).expect("memory can be written");
    }
    builder.into_inner().expect("memory can be written")
}

/// Reads the facts of a bundle. Each deployer's layout starts with a file of its own.
pub(crate) fn bundle(text: &str) {
    drop(parity::read_facts(&files(text)));
}

/// Unpacks a bundle, as `bundle pull` does. No file leaves the bundle's directory.
pub(crate) fn package(text: &str) {
    let mut layer = GzEncoder::new(Vec::new(), Compression::none());
    layer.write_all(&tar(&files(text))).expect("memory can be written");
    let layer = layer.finish().expect("memory can be written");
    let limits = ArchiveLimits { bytes: MAX_BYTES, files: MAX_ENTRIES };
    let Ok(files) = archive::unpack(&layer, limits) else { return };
    let Ok(bundle) = unpack(Path::new("oci://registry.example.com/gpu:v1"), files) else { return };
    for file in bundle.tree.files() {
        let mut parts = Path::new(&file.path).components();
        assert!(parts.all(|part| matches!(part, Component::Normal(_))), "{}", file.path);
    }
}

/// Identifies a chart in a package without compression: in any text, and in an archive.
pub(crate) fn chart_package(text: &str) {
    drop(identity(text.as_bytes()));
    drop(identity(&tar(&files(text))));
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
