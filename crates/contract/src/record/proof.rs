//! How far a rollout has proven a driver: kept in the run record, and passed on from run to run.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::user_request::UserRequest;

/// The proof of one driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverProof {
    /// The driver: what its DaemonSets install, separated by spaces. Another driver begins with
    /// canaries again; DaemonSets that disappear do not make it another one.
    pub driver: String,
    /// The names of the canaries, as far as they are chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<String>,
    /// The labels by which each canary was chosen, by its name. While its driver is replaced, a
    /// node loses the labels of GPU feature discovery.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub canary_labels: BTreeMap<String, BTreeMap<String, String>>,
    /// The canaries that have passed their acceptance tests with the driver.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tested: BTreeSet<String>,
    /// The steps that have ended, with their soaks. If the policy changes a step, this step and the
    /// later ones are repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_steps: Vec<String>,
    /// Since when all nodes of the current step have been proven; absent while some are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_at: Option<Timestamp>,
    /// Why no more nodes are started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halted>,
    /// Failed nodes because of which the rollout halted, and despite which a user resumed it: they
    /// do not halt it again until they are started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// The nodes on which the driver has failed.
    #[serde(default, skip_serializing_if = "DriverFailures::is_empty")]
    pub failures: DriverFailures,
}

/// The nodes on which a driver has failed under one deployment. A node that has left the cluster
/// since then has no record of its own any more, and still counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverFailures {
    /// The trigger digest of the deployment.
    pub digest: String,
    /// The UID of each node, by its name.
    pub nodes: BTreeMap<String, String>,
}

impl DriverFailures {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// A halt: no more nodes are started until a user resumes the rollout, or deploys another driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Halted {
    /// Since when.
    pub at: Timestamp,
    /// What reached its limit.
    pub cause: HaltCause,
    /// The failed nodes.
    pub nodes: Vec<String>,
    /// The label values of these nodes by which canaries are chosen, such as
    /// `nvidia.com/gpu.product=NVIDIA-L4`: the driver may be bad for only one GPU model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// What halts a rollout.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum HaltCause {
    /// Nodes whose new driver did not start, or failed its checks.
    FailedProofs,
    /// Nodes whose upgrade failed.
    FailedNodes,
    /// Nodes on which an acceptance test did not pass with the old driver. No node passed one.
    FailedTests,
}

impl HaltCause {
    /// Returns the name in records and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl Halted {
    /// Returns the request that ends this halt, if there is one: the user knew of it. The clocks of
    /// hook and workstation may differ, so their times are not compared.
    pub fn ended_by<'r>(&self, requests: &'r [UserRequest]) -> Option<&'r UserRequest> {
        requests.iter().rev().find(|request| request.halt == Some(self.at))
    }
}

impl DriverProof {
    /// Begins the proof of a driver.
    pub fn new(driver: String) -> Self {
        Self { driver, ..Self::default() }
    }

    /// Returns whether a user resumed the rollout despite the failure of this node.
    pub fn has_accepted(&self, node: &str) -> bool {
        self.accepted.iter().any(|known| known == node)
    }

    /// Returns whether the proof is about this driver.
    pub fn is_about(&self, driver: &str) -> bool {
        is_part_of(driver, &self.driver)
    }

    /// Ends the halt, if there is one and a user has ended it.
    pub fn resume(&mut self, requests: &[UserRequest]) {
        if let Some(halt) = self.halt.take_if(|halt| halt.ended_by(requests).is_some()) {
            self.accepted.extend(halt.nodes);
            self.accepted.sort_unstable();
            self.accepted.dedup();
        }
    }
}

/// Returns whether a driver is another one, or a part of it: a DaemonSet for one kernel or one node
/// pool disappears when its last node does.
pub fn is_part_of(driver: &str, other: &str) -> bool {
    let of_other: BTreeSet<&str> = other.split_whitespace().collect();
    driver.split_whitespace().all(|part| of_other.contains(part))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::user_request::RequestCommand;

    #[test]
    fn resume_ends_only_the_halt_that_the_user_saw() {
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let halted = |halt: Option<i64>| {
            let mut proof = DriverProof::new("a".to_owned());
            let nodes = vec!["gpu-1".to_owned(), "gpu-0".to_owned()];
            proof.halt = Some(Halted {
                at: at(5),
                cause: HaltCause::FailedProofs,
                nodes,
                labels: Vec::new(),
            });
            // The clock of the workstation is an hour behind.
            let request = UserRequest {
                halt: halt.map(at),
                ..UserRequest::new(RequestCommand::Resume, "ada".to_owned(), at(-3_600))
            };
            proof.resume(&[request]);
            (proof.halt.is_some(), proof.accepted)
        };
        assert_eq!(halted(None), (true, vec![]), "the request ended a pause");
        assert_eq!(halted(Some(4)), (true, vec![]), "the request ended an earlier halt");
        assert_eq!(halted(Some(5)), (false, vec!["gpu-0".to_owned(), "gpu-1".to_owned()]));
    }

    #[test]
    fn daemon_set_that_disappears_keeps_the_proof() {
        let proof = DriverProof::new("driver:580 driver:580-kernel-6.8".to_owned());
        assert!(proof.is_about("driver:580"), "a node pool has left");
        assert!(proof.is_about(""), "the operator creates its DaemonSets again");
        assert!(!proof.is_about("driver:580 driver:590"), "a node pool has another driver");
        assert!(!proof.is_about("driver:58"), "it is another driver");
    }
}
