//! The content of artifacts: a manifest, one layer with the files, and a config. These are pure
//! functions: the same files give the same digest.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use oci_client::client::{Config, ImageLayer};
use oci_client::manifest::{
    IMAGE_LAYER_GZIP_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest,
};

use archive::{ArchiveFiles, tar_gz};
use contract::digest::sha256;
use contract::grammar::is_digest;

/// The type of a bundle (`artifactType`). Its layer has OCI's own type, because Argo CD refuses all
/// but that and Helm's; Flux takes the first layer of any type.
const BUNDLE_TYPE: &str = "application/vnd.gpu-rollout.bundle.v1";
/// OCI's type of a config without content, and that content.
const EMPTY_TYPE: &str = "application/vnd.oci.empty.v1+json";
const EMPTY: &str = "{}";
/// Helm's types (helm.sh/docs/topics/registries).
const CHART_CONFIG_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_LAYER_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const REVISION: &str = "org.opencontainers.image.revision";

/// An artifact that can be pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// The digest of the manifest, with its algorithm.
    pub digest: String,
    /// The manifest as JSON.
    pub(super) manifest: Bytes,
    /// The blobs that the manifest names, in the order in which they are pushed.
    pub(super) blobs: [ArtifactBlob; 2],
}

/// A part of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArtifactBlob {
    /// Its digest, with its algorithm.
    pub(super) digest: String,
    /// Its content.
    pub(super) content: Bytes,
}

impl Artifact {
    /// Creates the artifact of a bundle. `revision` identifies the content independently of its
    /// packaging.
    ///
    /// # Errors
    /// A path cannot be in an archive.
    pub fn bundle(title: &str, revision: &str, files: &ArchiveFiles) -> io::Result<Self> {
        Self::new(
            ImageLayer::oci_v1_gzip(tar_gz(files)?, None),
            Config::new(EMPTY, EMPTY_TYPE.to_owned(), None),
            Some(BUNDLE_TYPE),
            [(TITLE, title), (REVISION, revision)],
        )
    }

    /// Creates the artifact of a Helm chart. `metadata`: its `Chart.yaml` as JSON; `files`: those
    /// of the chart, in a folder with its name.
    ///
    /// # Errors
    /// A path cannot be in an archive.
    pub fn chart(
        name: &str,
        version: &str,
        metadata: Vec<u8>,
        files: &ArchiveFiles,
    ) -> io::Result<Self> {
        Self::new(
            ImageLayer::new(tar_gz(files)?, CHART_LAYER_TYPE.to_owned(), None),
            Config::new(metadata, CHART_CONFIG_TYPE.to_owned(), None),
            None,
            [(TITLE, name), (VERSION, version)],
        )
    }

    fn new(
        layer: ImageLayer,
        config: Config,
        artifact_type: Option<&str>,
        annotations: [(&str, &str); 2],
    ) -> io::Result<Self> {
        let owned = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let layers = [layer];
        let manifest = OciImageManifest {
            media_type: Some(OCI_IMAGE_MEDIA_TYPE.to_owned()),
            artifact_type: artifact_type.map(str::to_owned),
            ..OciImageManifest::build(&layers, &config, Some(BTreeMap::from(owned)))
        };
        let manifest = Bytes::from(serde_json::to_vec(&manifest)?);
        let [layer] = layers;
        let blob = |content: Bytes| ArtifactBlob { digest: digest(&content), content };
        Ok(Self {
            digest: digest(&manifest),
            manifest,
            blobs: [blob(layer.data), blob(config.data)],
        })
    }
}

/// Returns the SHA-256 digest of `content`, with its algorithm.
pub(super) fn digest(content: &[u8]) -> String {
    format!("sha256:{}", sha256(content))
}

/// Returns the digest of the layer of a bundle from its manifest.
///
/// # Errors
/// Why the artifact is not a bundle.
pub(super) fn bundle_layer(manifest: &[u8]) -> Result<String, String> {
    let manifest: OciImageManifest =
        serde_json::from_slice(manifest).map_err(|error| format!("its manifest: {error}"))?;
    match manifest.artifact_type.as_deref() {
        Some(BUNDLE_TYPE) => {}
        Some(other) => return Err(format!("it has the type `{other}`")),
        None => return Err("it has no type".to_owned()),
    }
    match manifest.layers.as_slice() {
        [OciDescriptor { media_type, digest, .. }]
            if media_type == IMAGE_LAYER_GZIP_MEDIA_TYPE && is_digest(digest) =>
        {
            Ok(digest.clone())
        }
        _ => Err(format!("it has other layers than one of type `{IMAGE_LAYER_GZIP_MEDIA_TYPE}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::ArchiveFile;

    fn files(path: &str) -> ArchiveFiles {
        let file = ArchiveFile { content: b"kind: BundleInfo\n".to_vec(), executable: false };
        ArchiveFiles::from([(path.to_owned(), file)])
    }

    fn bundle() -> Artifact {
        Artifact::bundle("mine", &"0a".repeat(32), &files("gpu/bundle-info.yaml")).unwrap()
    }

    /// Returns the manifest with line breaks.
    fn pretty(artifact: &Artifact) -> String {
        let manifest: serde_json::Value = serde_json::from_slice(&artifact.manifest).unwrap();
        format!("{manifest:#}")
    }

    /// Users who push the same bundle must get the same digest, also with another version of this
    /// program.
    #[test]
    fn manifests_have_pinned_bytes() {
        insta::assert_snapshot!("bundle", pretty(&bundle()));
        let metadata = br#"{"apiVersion":"v2","name":"crds","version":"1.0.0+d1"}"#.to_vec();
        let chart = Artifact::chart("crds", "1.0.0+d1", metadata, &files("crds/Chart.yaml"));
        insta::assert_snapshot!("chart", pretty(&chart.unwrap()));
    }

    #[test]
    fn digests_are_those_of_the_content() {
        let artifact = bundle();
        assert_eq!(artifact, bundle());
        assert_eq!(artifact.digest, digest(&artifact.manifest));
        let manifest: OciImageManifest = serde_json::from_slice(&artifact.manifest).unwrap();
        let [layer, config] = &artifact.blobs;
        assert_eq!(manifest.layers[0].digest, digest(&layer.content));
        assert_eq!(manifest.config.digest, digest(&config.content));
        // The constant of the OCI specification.
        assert_eq!(
            config.digest,
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
        );
    }

    #[test]
    fn only_bundles_are_recognized() {
        let artifact = bundle();
        assert_eq!(bundle_layer(&artifact.manifest), Ok(artifact.blobs[0].digest.clone()));
        let text = String::from_utf8(artifact.manifest.to_vec()).unwrap();
        for (from, to, reason) in [
            (BUNDLE_TYPE, "application/x", "it has the type `application/x`"),
            ("artifactType", "other", "it has no type"),
            (IMAGE_LAYER_GZIP_MEDIA_TYPE, "application/x", "it has other layers than one"),
            ("\"layers\":[", "\"layers\":[],\"x\":[", "it has other layers than one"),
            ("schemaVersion", "other", "its manifest: "),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            let found = bundle_layer(changed.as_bytes()).unwrap_err();
            assert!(found.starts_with(reason), "{found}");
        }
        let digest = &artifact.blobs[0].digest;
        assert!(bundle_layer(text.replace(digest.as_str(), "sha256:../x").as_bytes()).is_err());
    }
}
