//! The observed state: the views of the hook's own caches for the model, and the parts that a pass
//! can change for the comparison.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use contract::driver::Driver;
use contract::selector::Selector;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::DynamicObject;
use observed::workload::{Workload, Workloads};
use observed::{Observed, ObservedNode, OptionalApi};
use observed::{object, project};

use super::api::Server;
use super::library::Of;
use super::world::{self, CLAIMS, CLUSTER_POLICIES, NIC_CLUSTER_POLICIES, NVIDIA_DRIVERS};

/// The prefix with which the model marks a value as the current time.
const ABOUT: &str = "about ";
/// The tolerance of such a time, in seconds.
const OFF: u64 = 60;
const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/pods";

/// One snapshot of the cluster.
pub(super) struct Seen {
    pub(super) observed: Observed,
    /// The pods of each node.
    pub(super) pods: BTreeMap<String, Vec<Workload>>,
    pub(super) picture: Picture,
}

/// The parts that a pass and its evictions can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) nodes: BTreeMap<String, NodeLook>,
    /// Whether each pod, as `namespace/name`, is being deleted.
    pub(super) pods: BTreeMap<String, bool>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeLook {
    pub(super) state: String,
    pub(super) cordoned: bool,
    /// The library's annotations.
    pub(super) notes: BTreeMap<String, String>,
}

impl Picture {
    /// Returns one line for each difference.
    pub(super) fn difference(&self, expected: &Self) -> String {
        let mut lines = String::new();
        let mut both = |name: &str, found: Option<String>, wanted: Option<String>| {
            if found != wanted {
                let absent = || "absent".to_owned();
                // Writing into a String cannot fail.
                let _infallible = writeln!(
                    lines,
                    "{name}\n  - {}\n  + {}",
                    found.unwrap_or_else(absent),
                    wanted.unwrap_or_else(absent)
                );
            }
        };
        for name in self
            .nodes
            .keys()
            .chain(expected.nodes.keys().filter(|name| !self.nodes.contains_key(*name)))
        {
            if self
                .nodes
                .get(name)
                .zip(expected.nodes.get(name))
                .is_some_and(|(found, wanted)| found.is_as_expected(wanted))
            {
                continue;
            }
            let text = |picture: &Self| picture.nodes.get(name).map(|look| format!("{look:?}"));
            both(name, text(self), text(expected));
        }
        for name in self
            .pods
            .keys()
            .chain(expected.pods.keys().filter(|name| !self.pods.contains_key(*name)))
        {
            let text = |picture: &Self| {
                picture.pods.get(name).map(|deleting| format!("being deleted: {deleting}"))
            };
            both(name, text(self), text(expected));
        }
        lines
    }

    /// Returns the old and the new state of each node whose state changed.
    pub(super) fn moves_since<'p>(
        &'p self,
        before: &'p Self,
    ) -> impl Iterator<Item = (&'p str, &'p str)> {
        let both = |(name, now): (&String, &'p NodeLook)| {
            Some((before.nodes.get(name)?.state.as_str(), now.state.as_str()))
        };
        self.nodes.iter().filter_map(both).filter(|(from, to)| from != to)
    }

    fn add_node(&mut self, node: &ObservedNode, driver: Driver) {
        let notes = driver
            .traits()
            .controller_annotations()
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), node.annotations.get(key)?.clone())));
        let state = node.labels.get(driver.traits().state_label).cloned().unwrap_or_default();
        self.nodes.insert(
            node.name.clone(),
            NodeLook { state, cordoned: node.unschedulable, notes: notes.collect() },
        );
    }

    fn add_pod(&mut self, pod: &object::Pod) {
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let metadata = &pod.metadata;
        self.pods.insert(
            format!("{}/{}", name(&metadata.namespace), name(&metadata.name)),
            metadata.deletion_timestamp.is_some(),
        );
    }

    /// Reads the current state.
    pub(super) async fn look(server: &Server, of: Of) -> Result<Self> {
        let mut picture = Self::default();
        let nodes = server.list::<object::Node>(NODES).await?;
        nodes
            .iter()
            .filter_map(project::node)
            .for_each(|node| picture.add_node(&node, of.driver()));
        server.list(PODS).await?.iter().for_each(|pod| picture.add_pod(pod));
        Ok(picture)
    }
}

/// Returns the expected value for one that the model has written. A time must only be close to the
/// time of the pass.
pub(super) fn about(value: &str) -> String {
    if value.parse::<i64>().is_ok() { format!("{ABOUT}{value}") } else { value.to_owned() }
}

fn is_as_expected(found: &str, expected: &str) -> bool {
    let Some(Ok(time)) = expected.strip_prefix(ABOUT).map(str::parse::<i64>) else {
        return found == expected;
    };
    found.parse::<i64>().is_ok_and(|found| found.abs_diff(time) <= OFF)
}

impl NodeLook {
    fn is_as_expected(&self, expected: &Self) -> bool {
        let both = self.notes.iter().zip(&expected.notes);
        self.state == expected.state
            && self.cordoned == expected.cordoned
            && self.notes.len() == expected.notes.len()
            && both.into_iter().all(|((key, found), (other, expected))| {
                key == other && is_as_expected(found, expected)
            })
    }
}

impl Seen {
    /// Takes a snapshot.
    pub(super) async fn look(server: &Server, of: Of) -> Result<Self> {
        let driver = of.driver();
        let namespace = world::namespace(driver);
        let mut observed = Observed::default();
        let mut picture = Picture::default();
        for node in server.list::<object::Node>(NODES).await?.iter().filter_map(project::node) {
            picture.add_node(&node, driver);
            observed.nodes.insert(node.name.clone(), node);
        }
        let all = |kind: &str| format!("/apis/apps/v1/namespaces/{namespace}/{kind}");
        let daemon_sets = server.list::<object::DaemonSet>(&all("daemonsets")).await?;
        observed.daemon_sets = daemon_sets.iter().filter_map(project::daemon_set).collect();
        let revisions =
            server.list::<object::ControllerRevision>(&all("controllerrevisions")).await?;
        observed.revisions = revisions.iter().filter_map(project::revision).collect();
        let first = |objects: Vec<DynamicObject>| objects.into_iter().next();
        observed.cluster_policy = OptionalApi::Served(
            first(server.list(CLUSTER_POLICIES).await?).as_ref().and_then(project::cluster_policy),
        );
        observed.nic_cluster_policy = OptionalApi::Served(
            first(server.list(NIC_CLUSTER_POLICIES).await?)
                .as_ref()
                .and_then(project::nic_cluster_policy),
        );
        let drivers = server.list::<DynamicObject>(NVIDIA_DRIVERS).await?;
        observed.nvidia_drivers =
            OptionalApi::Served(drivers.iter().filter_map(project::nvidia_driver).collect());

        let pods = server.list::<object::Pod>(PODS).await?;
        let jobs: Option<Selector> =
            waited_for(&observed, driver).and_then(|selector| selector.parse().ok());
        let mut by_node: BTreeMap<String, Vec<Workload>> = BTreeMap::new();
        let (mut drivers, mut validators) = (Vec::new(), Vec::new());
        for pod in &pods {
            let metadata = &pod.metadata;
            let label = |key: &str| {
                metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str)
            };
            if metadata.namespace.as_deref() == Some(namespace) {
                let validates =
                    driver.traits().validator.is_some_and(|(key, value)| label(key) == Some(value));
                let kept = if validates { &mut validators } else { &mut drivers };
                kept.extend(project::pod(pod));
            }
            if let Some(workload) = project::workload(pod) {
                if jobs.as_ref().is_some_and(|jobs| jobs.matches(&workload.labels)) {
                    observed.workloads.jobs.extend(project::job(pod));
                }
                by_node.entry(workload.node.clone()).or_default().push(workload);
            }
            picture.add_pod(pod);
        }
        observed.pods = drivers.into_iter().collect();
        observed.validators = validators.into_iter().collect();
        let claims = server.list::<DynamicObject>(CLAIMS).await?;
        observed.workloads.claims =
            OptionalApi::Served(claims.iter().filter_map(project::claim).collect());
        let budgets =
            server.list::<PodDisruptionBudget>("/apis/policy/v1/poddisruptionbudgets").await?;
        observed.workloads.budgets = budgets.iter().filter_map(project::budget).collect();
        Ok(Self { observed, pods: by_node, picture })
    }

    /// Returns the pods of a node.
    pub(super) fn pods_on(&self, node: &str) -> &[Workload] {
        self.pods.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the other objects of the workloads, for the model.
    pub(super) fn workloads(&self) -> &Workloads {
        &self.observed.workloads
    }
}

/// Returns the selector of the pods that the live policy waits for.
fn waited_for(observed: &Observed, driver: Driver) -> Option<String> {
    let policy = match driver {
        Driver::Ofed => &observed.nic_cluster_policy.served()?.as_ref()?.upgrade_policy,
        Driver::Gpu | Driver::DaemonSet => {
            &observed.cluster_policy.served()?.as_ref()?.upgrade_policy
        }
    };
    policy.wait_for_completion.as_ref().map(|wait| wait.pod_selector.clone())
}
