//! The baseline: each GPU node as it was when a run started. Failures that existed before are
//! reported, and the run is not blamed for them; GPUs that are missing afterwards are detected. The
//! baseline is stored with the run, because a replacement pod would otherwise excuse failures that
//! this run caused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cohort::{PART_NODES, fingerprint, fingerprints};

/// Prefix of the data keys of the stored baseline; the number of the part follows.
pub const BASELINE_KEY_PREFIX: &str = "baseline.";

/// The GPU nodes at the start of a run, by the fingerprint of their UID. Equal nodes share one
/// entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(BTreeMap<u64, Arc<NodeBaseline>>);

/// A node at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeBaseline {
    /// Labels that decide how many GPUs the node offers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shape: BTreeMap<String, String>,
    /// GPUs in the node's capacity, by extended resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gpus: BTreeMap<String, String>,
    /// DaemonSets whose pod on the node was failing, and has not worked since then.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failing: BTreeSet<String>,
}

/// The equal nodes of one part.
#[derive(Serialize, Deserialize)]
struct NodeGroup {
    #[serde(flatten)]
    baseline: NodeBaseline,
    /// The concatenated fingerprints of the nodes.
    nodes: String,
}

impl Baseline {
    /// Adds a node.
    pub fn insert(&mut self, uid: &str, node: Arc<NodeBaseline>) {
        self.0.insert(fingerprint(uid), node);
    }

    /// Returns the entry of the node with this UID; `None` if the node did not exist when the run
    /// started.
    pub fn get(&self, uid: &str) -> Option<&Arc<NodeBaseline>> {
        self.0.get(&fingerprint(uid))
    }

    /// Returns all entries, mutable.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = &mut Arc<NodeBaseline>> {
        self.0.values_mut()
    }

    /// Returns all entries.
    pub fn entries(&self) -> impl Iterator<Item = &NodeBaseline> {
        self.0.values().map(|node| &**node)
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether it has no nodes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the stored form, in parts of [`PART_NODES`] nodes: 16 bytes of text for each node,
    /// and the common properties of equal nodes once.
    pub fn parts(&self) -> Vec<String> {
        let nodes: Vec<(u64, &Arc<NodeBaseline>)> =
            self.0.iter().map(|(one, node)| (*one, node)).collect();
        nodes.chunks(PART_NODES).map(text).collect()
    }

    /// Reads the stored form. `None` if it is not the whole baseline of `nodes` nodes, as after an
    /// interrupted write.
    pub fn from_parts<'a>(parts: impl IntoIterator<Item = &'a str>, nodes: usize) -> Option<Self> {
        let mut all = BTreeMap::new();
        for part in parts {
            for NodeGroup { baseline, nodes } in
                serde_json::from_str::<Vec<NodeGroup>>(part).ok()?
            {
                let shared = Arc::new(baseline);
                all.extend(fingerprints(&nodes)?.into_iter().map(|one| (one, Arc::clone(&shared))));
            }
        }
        (all.len() == nodes).then_some(Self(all))
    }
}

/// Returns one part in its stored form.
fn text(nodes: &[(u64, &Arc<NodeBaseline>)]) -> String {
    let mut groups: BTreeMap<&NodeBaseline, String> = BTreeMap::new();
    for (one, node) in nodes {
        // Writing into a String cannot fail.
        let _infallible = write!(groups.entry(&**node).or_default(), "{one:016x}");
    }
    let groups: Vec<NodeGroup> = groups
        .into_iter()
        .map(|(baseline, nodes)| NodeGroup { baseline: baseline.clone(), nodes })
        .collect();
    // Serialization can fail only for map keys that are not strings and for failing Serialize
    // implementations, and the type has neither.
    serde_json::to_string(&groups).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(gpus: &str, failing: &[&str]) -> Arc<NodeBaseline> {
        Arc::new(NodeBaseline {
            shape: BTreeMap::from([(
                "nvidia.com/mig.config".to_owned(),
                "all-disabled".to_owned(),
            )]),
            gpus: BTreeMap::from([("nvidia.com/gpu".to_owned(), gpus.to_owned())]),
            failing: failing.iter().map(|one| (*one).to_owned()).collect(),
        })
    }

    #[test]
    fn baseline_of_many_parts_reads_back() {
        let mut baseline = Baseline::default();
        for index in 0..=PART_NODES {
            let failing: &[&str] = if index % 1000 == 0 { &["nvidia-dcgm-exporter"] } else { &[] };
            baseline.insert(
                &format!("uid-{index}"),
                node(if index % 2 == 0 { "8" } else { "4" }, failing),
            );
        }
        let parts = baseline.parts();
        assert_eq!(parts.len(), 2);
        assert!(parts[0].len() < 161_000, "{} bytes", parts[0].len());
        assert_eq!(
            Baseline::from_parts(parts.iter().map(String::as_str), baseline.len()).as_ref(),
            Some(&baseline)
        );
        assert_eq!(
            Baseline::from_parts([parts[0].as_str()], baseline.len()),
            None,
            "a part is missing"
        );
        assert_eq!(baseline.get("uid-1000"), Some(&node("8", &["nvidia-dcgm-exporter"])));
        assert_eq!(baseline.get("another"), None);
    }

    #[test]
    fn broken_baseline_counts_as_absent() {
        assert_eq!(Baseline::from_parts(["[{\"nodes\":\"00\"}]"], 1), None);
        assert_eq!(Baseline::from_parts(["{}"], 0), None);
        assert_eq!(Baseline::from_parts([], 0), Some(Baseline::default()));
    }
}
