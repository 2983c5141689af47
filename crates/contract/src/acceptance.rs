//! Acceptance tests: pods that a user wants to succeed on a node before the node takes workloads
//! again. Their pod templates are PodTemplate objects of the hook chart, in a namespace of their
//! own: the hook creates pods only from these objects.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::digest::sha256;
use super::grammar::is_dns_label;
use super::omitted::is_default;
use super::proof::RampShare;

mod log_excerpt;
mod pace;

pub use log_excerpt::{MOST_LOG_CHARACTERS, log_excerpt};
pub use pace::TestPace;

/// The namespace of all PodTemplates and pods of acceptance tests. It contains nothing else, so a
/// Role can limit the hook to it.
pub const ACCEPTANCE_NAMESPACE: &str = "gpu-rollout-acceptance";
/// The label of a pod with the name of its test.
pub const TEST_LABEL: &str = "gpu-rollout.dev/acceptance-test";
/// The annotation of a pod with the name of its node: a label value may be too short for it.
pub const NODE_ANNOTATION: &str = "gpu-rollout.dev/acceptance-node";
/// The annotation of a pod with its time: `before` or `after`.
pub const TIME_ANNOTATION: &str = "gpu-rollout.dev/acceptance-time";
/// The label of a pod with the first characters of the trigger digest of its run.
pub const RUN_LABEL: &str = super::names::DIGEST_LABEL;
/// The label with the name of its test of a pod that a user runs by hand (`gpu-rollout accept`). Such
/// a pod lacks [`TEST_LABEL`], so that no hook takes it for its own.
pub const HAND_LABEL: &str = "gpu-rollout.dev/acceptance-by-hand";
/// The longest name of a test: a pod's name also contains a hash, and the name is a label value.
pub const LONGEST_TEST_NAME: usize = 40;
/// The most lines of its log that a test may ask for.
pub const MOST_LOG_LINES: u32 = 50;
/// How many characters of a hash the name of a pod has.
const HASH_LENGTH: usize = 10;
/// The ResourceClaimTemplate of the chart by which a pod requests all GPUs of its node, if a DRA
/// driver offers them.
pub const ALL_GPUS_CLAIM_TEMPLATE: &str = "all-gpus";

/// An acceptance test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptanceTest {
    /// Its name, which is also the name of its PodTemplate: a DNS label of at most
    /// [`LONGEST_TEST_NAME`] characters.
    pub name: String,
    /// Seconds from the creation of the pod to its end, with the pull of its image.
    pub timeout_seconds: u64,
    /// When it runs.
    pub when: Vec<AcceptanceTime>,
    /// On which nodes it runs.
    pub nodes: AcceptanceNodes,
    /// Which GPUs of the node the pod requests.
    #[serde(default)]
    pub gpus: AcceptanceGpus,
    /// How many lines of its log are kept if it does not pass, at most [`MOST_LOG_LINES`].
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_lines: u32,
}

impl AcceptanceTest {
    /// Returns whether the test runs at this time.
    pub fn runs(&self, time: AcceptanceTime) -> bool {
        self.when.contains(&time)
    }
}

/// When a test runs on a node.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum AcceptanceTime {
    /// When the node is free of workloads, with its old driver: distinguishes a bad node from a bad
    /// driver.
    Before,
    /// With the new driver, before the node takes workloads.
    After,
}

impl AcceptanceTime {
    /// Returns the word in settings and records.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// On which nodes a test runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String", extend("pattern" = "^(canaries|all|([1-9][0-9]?|100)%)$"))]
pub enum AcceptanceNodes {
    /// The canaries of the policy.
    Canaries,
    /// Every node.
    #[default]
    All,
    /// The canaries, and about this share of the other nodes: a hash of a node's name decides, so
    /// that the choice is the same in every run.
    Share(RampShare),
}

/// Why a text is not [`AcceptanceNodes`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `canaries`, `all` or a percentage from `1%` to `100%`, found `{0}`")]
pub struct AcceptanceNodesError(String);

impl std::fmt::Display for AcceptanceNodes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Canaries => formatter.write_str("canaries"),
            Self::All => formatter.write_str("all"),
            Self::Share(share) => write!(formatter, "{share}"),
        }
    }
}

impl std::str::FromStr for AcceptanceNodes {
    type Err = AcceptanceNodesError;

    fn from_str(text: &str) -> Result<Self, AcceptanceNodesError> {
        match text {
            "canaries" => Ok(Self::Canaries),
            "all" => Ok(Self::All),
            share => {
                share.parse().map(Self::Share).map_err(|_| AcceptanceNodesError(text.to_owned()))
            }
        }
    }
}

impl Serialize for AcceptanceNodes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AcceptanceNodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Which GPUs of its node a pod requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptanceGpus {
    /// All that the node offers: through the device plugin, or with a claim where a DRA driver
    /// offers them.
    #[default]
    All,
    /// What the pod template itself requests.
    Template,
}

/// Returns whether a text can be the name of a test.
pub fn is_test_name(text: &str) -> bool {
    text.len() <= LONGEST_TEST_NAME && is_dns_label(text)
}

/// Returns the name of the pod of a test on a node. It is the same for the same attempt,
/// whichever process computes it, so a test never runs twice at once. `attempt`: what tells attempts
/// apart.
pub fn pod_name(test: &str, node_uid: &str, attempt: &str) -> String {
    let hash = sha256([test, node_uid, attempt].join("/").as_bytes());
    format!("{test}-{}", &hash[..HASH_LENGTH])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_canaries_all_or_a_share() {
        for text in ["canaries", "all", "10%", "100%"] {
            let nodes: AcceptanceNodes = text.parse().expect("a choice of nodes");
            assert_eq!(nodes.to_string(), text);
        }
        let error = "some".parse::<AcceptanceNodes>().expect_err("no choice of nodes");
        assert_eq!(
            error.to_string(),
            "expected `canaries`, `all` or a percentage from `1%` to `100%`, found `some`"
        );
    }

    #[test]
    fn test_names_are_short_labels() {
        for (name, fits) in [
            ("dcgm", true),
            ("a-1", true),
            (&"t".repeat(LONGEST_TEST_NAME), true),
            (&"t".repeat(LONGEST_TEST_NAME + 1), false),
            ("", false),
            ("-a", false),
            ("a.b", false),
            ("A", false),
        ] {
            assert_eq!(is_test_name(name), fits, "{name}");
        }
    }

    #[test]
    fn pod_names_differ_for_each_attempt_and_fit_into_a_label() {
        let longest = "t".repeat(LONGEST_TEST_NAME);
        let name = pod_name(&longest, "uid", "1");
        assert!(name.len() <= 63, "{name}");
        assert_eq!(name, pod_name(&longest, "uid", "1"));
        assert_ne!(name, pod_name(&longest, "uid", "2"));
        assert_ne!(name, pod_name(&longest, "other", "1"));
    }
}
