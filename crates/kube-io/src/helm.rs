//! Reads Helm's releases from their Secrets of a type of their own. They contain JSON that is
//! compressed and base64-encoded again (Helm `pkg/storage/driver`, the same in 3 and 4).

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::api_collection::ApiCollection;
use super::call::CallError;
use super::list::list_pages_of;
use super::list_watch::ObjectSelection;

/// Releases per page, because each contains its whole chart.
const PAGE: u32 = 10;
/// The largest unpacked release that is read, in bytes: a Secret has at most 1 MiB, and charts are
/// text.
const LARGEST: u64 = 64 << 20;

/// A deployed release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedRelease {
    /// Name of the release.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// The chart's name.
    pub chart: String,
    /// The chart's version.
    pub version: String,
    /// The values that the user supplied.
    pub values: Map<String, Value>,
}

#[derive(Deserialize)]
struct StoredRelease {
    name: String,
    namespace: String,
    chart: ReleasedChart,
    #[serde(default)]
    config: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct ReleasedChart {
    metadata: ChartMetadata,
}

#[derive(Deserialize)]
struct ChartMetadata {
    name: String,
    version: String,
}

/// The releases of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployedReleases {
    /// The deployed releases.
    pub deployed: Vec<DeployedRelease>,
    /// Secrets that are not in the known format: a newer Helm may store releases differently.
    pub unreadable: Vec<String>,
}

/// Lists the deployed releases of all namespaces, or of one. RBAC: `list` on `secrets`.
///
/// # Errors
/// A call failed.
pub async fn releases(
    client: &Client,
    namespace: Option<&str>,
) -> Result<DeployedReleases, CallError> {
    let secrets = ApiCollection::new(client, ("v1", "secrets"), namespace);
    let selection = ObjectSelection {
        fields: Some("type=helm.sh/release.v1".to_owned()),
        ..ObjectSelection::matching("owner=helm,status=deployed")
    };
    let mut all = DeployedReleases::default();
    let each = |secret: Secret| {
        let packed = secret.data.unwrap_or_default().remove("release");
        match packed.and_then(|ByteString(packed)| unpack(&packed)) {
            Some(release) => all.deployed.push(release),
            None => all.unreadable.extend(secret.metadata.name),
        }
    };
    list_pages_of(PAGE, &secrets, &selection, each).await?;
    Ok(all)
}

/// Decodes the text of a release.
fn unpack(text: &[u8]) -> Option<DeployedRelease> {
    let packed = STANDARD.decode(text).ok()?;
    let mut json = Vec::new();
    GzDecoder::new(&packed[..]).take(LARGEST).read_to_end(&mut json).ok()?;
    let StoredRelease { name, namespace, chart, config } = serde_json::from_slice(&json).ok()?;
    let ReleasedChart { metadata: ChartMetadata { name: chart, version } } = chart;
    Some(DeployedRelease { name, namespace, chart, version, values: config.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_is_packed_json_in_base64() {
        let release = json!({
            "name": "gpu-operator", "namespace": "gpu-operator", "version": 3, "info": {"status": "deployed"}, "manifest": "---\n",
            "chart": {"metadata": {"name": "gpu-operator", "version": "v26.3.1"}, "templates": []},
            "config": {"driver": {"version": "580.126.20"}},
        });
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(release.to_string().as_bytes()).expect("packing");
        let packed = STANDARD.encode(encoder.finish().expect("packing"));
        let read = unpack(packed.as_bytes()).expect("a release");
        assert_eq!((read.chart.as_str(), read.version.as_str()), ("gpu-operator", "v26.3.1"));
        assert_eq!(read.values["driver"]["version"], "580.126.20");
        assert_eq!(unpack(b"!"), None);
        assert_eq!(unpack(b"bm8gZ3ppcA=="), None);
    }
}
