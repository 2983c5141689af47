//! What happens to the pods of acceptance tests in a simulated cluster. Without a fault, a pod
//! succeeds.

use std::fmt;
use std::str::FromStr;

use contract::acceptance::AcceptanceTime;
use contract::proof::RampShare;
use observed::ObservedNode;

use super::random::SeededRandom;
use super::report::SecondsText;

/// The faults of acceptance tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcceptanceFaults {
    /// The faults of pods, in order. The first one that matches a pod applies.
    pub faults: Vec<AcceptanceFault>,
    /// The fault of logs. `None`: the hook can read all logs.
    pub log_fault: Option<LogFault>,
}

/// A fault of logs: the hook cannot read them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFault {
    /// The nodes whose logs it concerns.
    pub nodes: FaultyNodes,
    /// Whether the answer is that there is no log. Otherwise, there is no answer.
    pub is_final: bool,
}

/// A fault of acceptance tests: what happens, and to which pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptanceFault {
    /// What happens to the pods.
    pub effect: AcceptanceEffect,
    /// The nodes on which it happens.
    pub nodes: FaultyNodes,
    /// The name of the test. `None`: every test.
    pub test: Option<String>,
    /// When the test runs. `None`: before and after.
    pub time: Option<AcceptanceTime>,
    /// The version of the driver with which the pod runs. `None`: every version.
    pub version: Option<String>,
}

impl AcceptanceFault {
    /// Returns a fault of every test on these nodes, with any driver.
    pub fn new(effect: AcceptanceEffect, nodes: FaultyNodes) -> Self {
        Self { effect, nodes, test: None, time: None, version: None }
    }

    fn matches(&self, pod: &StartedTest<'_>) -> bool {
        self.test.as_deref().is_none_or(|test| test == pod.test)
            && self.time.is_none_or(|time| pod.time == Some(time))
            && self.version.as_deref().is_none_or(|version| version == pod.version)
            && self.nodes.contains(pod.node, pod.seed)
    }
}

/// What happens to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptanceEffect {
    /// Its container ends with this exit code.
    Fails {
        /// The exit code.
        exit_code: i32,
    },
    /// Its container does not end by itself.
    Hangs,
    /// The kubelet cannot pull its image for a time. `None`: never.
    ImageNotPulled {
        /// Milliseconds from the time at which the pod is bound.
        milliseconds: Option<u64>,
    },
    /// The kubelet refuses it, as it does if a device plugin cannot allocate what it requests.
    EndedByKubelet,
    /// The API server refuses to create it.
    Refused,
    /// The scheduler finds no place for it.
    Unschedulable,
    /// Its container succeeds later than others.
    Slow {
        /// Additional milliseconds.
        milliseconds: u64,
    },
}

/// The nodes on which a fault happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultyNodes {
    /// Every node.
    All,
    /// One node, by name.
    Node(String),
    /// The nodes with this value of a label, such as one GPU model.
    Label {
        /// The key of the label.
        key: String,
        /// Its value.
        value: String,
    },
    /// About this share of the nodes. Seed and name of a node decide.
    Share(RampShare),
}

impl FaultyNodes {
    /// Returns whether the fault happens on this node.
    fn contains(&self, node: &ObservedNode, seed: u64) -> bool {
        match self {
            Self::All => true,
            Self::Node(name) => *name == node.name,
            Self::Label { key, value } => node.labels.has(key, value),
            Self::Share(share) => SeededRandom::stream(seed, &format!("faulty/{}", node.name), 0)
                .percent(share.resolve(100) as u64),
        }
    }
}

/// Why a text is not [`FaultyNodes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultyNodesError(String);

impl fmt::Display for FaultyNodesError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "expected a percentage from `1%` to `100%`, or `LABEL=VALUE`, found `{}`",
            self.0
        )
    }
}

impl std::error::Error for FaultyNodesError {}

/// Reads a share, such as `10%`, or a label with its value, such as
/// `nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3`.
impl FromStr for FaultyNodes {
    type Err = FaultyNodesError;

    fn from_str(text: &str) -> Result<Self, FaultyNodesError> {
        let error = || FaultyNodesError(text.to_owned());
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                Ok(Self::Label { key: key.to_owned(), value: value.to_owned() })
            }
            Some(_) => Err(error()),
            None => text.parse().map(Self::Share).map_err(|_| error()),
        }
    }
}

/// A pod that a test starts with.
#[derive(Clone, Copy)]
pub(super) struct StartedTest<'t> {
    pub(super) test: &'t str,
    pub(super) time: Option<AcceptanceTime>,
    pub(super) node: &'t ObservedNode,
    /// The version of the node's driver.
    pub(super) version: &'t str,
    /// The seed of the run.
    pub(super) seed: u64,
}

impl AcceptanceFaults {
    /// Returns what happens to a pod. `None`: it succeeds.
    pub(super) fn effect(&self, pod: &StartedTest<'_>) -> Option<AcceptanceEffect> {
        self.faults.iter().find(|fault| fault.matches(pod)).map(|fault| fault.effect)
    }

    /// Returns the fault of logs, if it concerns this node.
    pub(super) fn log_fault_on(&self, node: &ObservedNode, seed: u64) -> Option<&LogFault> {
        self.log_fault.as_ref().filter(|fault| fault.nodes.contains(node, seed))
    }
}

impl fmt::Display for AcceptanceEffect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails { exit_code } => write!(out, "fails with exit code {exit_code}"),
            Self::Hangs => out.write_str("does not end"),
            Self::ImageNotPulled { milliseconds: None } => out.write_str("finds no image"),
            Self::ImageNotPulled { milliseconds: Some(time) } => {
                write!(out, "finds no image for {}", SecondsText(*time))
            }
            Self::EndedByKubelet => out.write_str("is refused by the kubelet"),
            Self::Refused => out.write_str("is refused"),
            Self::Unschedulable => out.write_str("cannot be scheduled"),
            Self::Slow { milliseconds } => {
                write!(out, "takes {} longer", SecondsText(*milliseconds))
            }
        }
    }
}

impl fmt::Display for FaultyNodes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("all nodes"),
            Self::Node(name) => out.write_str(name),
            Self::Label { key, value } => write!(out, "nodes with {key}={value}"),
            Self::Share(share) => write!(out, "{share} of the nodes"),
        }
    }
}

impl fmt::Display for AcceptanceFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.test {
            Some(test) => write!(out, "test {test} ")?,
            None => out.write_str("every test ")?,
        }
        write!(out, "{} on {}", self.effect, self.nodes)?;
        if let Some(time) = self.time {
            write!(out, ", {}", time.name())?;
        }
        match &self.version {
            Some(version) => write!(out, ", with driver {version}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, product: &str) -> ObservedNode {
        ObservedNode {
            name: name.to_owned(),
            labels: [("nvidia.com/gpu.product".to_owned(), product.to_owned())].into(),
            ..ObservedNode::default()
        }
    }

    fn started<'t>(node: &'t ObservedNode, version: &'t str) -> StartedTest<'t> {
        StartedTest { test: "dcgm", time: Some(AcceptanceTime::After), node, version, seed: 1 }
    }

    #[test]
    fn nodes_are_a_share_or_a_label_with_its_value() {
        let product = FaultyNodes::Label {
            key: "nvidia.com/gpu.product".to_owned(),
            value: "NVIDIA-H100".to_owned(),
        };
        assert_eq!("nvidia.com/gpu.product=NVIDIA-H100".parse::<FaultyNodes>(), Ok(product));
        let tenth: RampShare = "10%".parse().expect("a share");
        assert_eq!("10%".parse::<FaultyNodes>(), Ok(FaultyNodes::Share(tenth)));
        for wrong in ["", "0%", "101%", "=H100", "H100"] {
            let error = wrong.parse::<FaultyNodes>().expect_err("no choice of nodes");
            assert!(error.to_string().ends_with(&format!("found `{wrong}`")), "{error}");
        }
    }

    #[test]
    fn first_matching_fault_applies() {
        let on_model = AcceptanceFault {
            version: Some("2".to_owned()),
            time: Some(AcceptanceTime::After),
            ..AcceptanceFault::new(
                AcceptanceEffect::Fails { exit_code: 1 },
                "nvidia.com/gpu.product=H100".parse().expect("a label"),
            )
        };
        let other = AcceptanceFault {
            test: Some("nccl".to_owned()),
            ..AcceptanceFault::new(AcceptanceEffect::Hangs, FaultyNodes::All)
        };
        let last = AcceptanceFault::new(
            AcceptanceEffect::Unschedulable,
            FaultyNodes::Node("gpu-1".to_owned()),
        );
        let faults = AcceptanceFaults { faults: vec![on_model, other, last], log_fault: None };
        let (bad, good) = (node("gpu-0", "H100"), node("gpu-1", "L4"));
        assert_eq!(
            faults.effect(&started(&bad, "2")),
            Some(AcceptanceEffect::Fails { exit_code: 1 })
        );
        assert_eq!(faults.effect(&started(&bad, "1")), None, "the old driver is good");
        let before = StartedTest { time: Some(AcceptanceTime::Before), ..started(&bad, "2") };
        assert_eq!(faults.effect(&before), None);
        assert_eq!(faults.effect(&started(&good, "2")), Some(AcceptanceEffect::Unschedulable));
        let nccl = StartedTest { test: "nccl", ..started(&good, "2") };
        assert_eq!(faults.effect(&nccl), Some(AcceptanceEffect::Hangs));
    }

    #[test]
    fn share_of_nodes_is_the_same_for_the_same_seed() {
        let half: FaultyNodes = "50%".parse().expect("a share");
        let faulty = |seed| -> Vec<usize> {
            (0..200)
                .filter(|index| half.contains(&node(&format!("gpu-{index}"), "H100"), seed))
                .collect()
        };
        assert_eq!(faulty(1), faulty(1));
        assert_ne!(faulty(1), faulty(2));
        assert!((70..130).contains(&faulty(1).len()), "{}", faulty(1).len());
        let all: FaultyNodes = "100%".parse().expect("a share");
        assert!(all.contains(&node("gpu-0", "H100"), 1));
    }
}
