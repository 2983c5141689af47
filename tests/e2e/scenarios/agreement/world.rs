//! The world: nodes, driver DaemonSets with their revisions and pods, validators, workloads, and
//! the custom resource with the upgrade policy. No controller runs: the test performs all actions
//! (`actions`).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use contract::driver::Driver;
use nvidia_upgrade::ControllerGeneration;
use serde_json::{Value, json};

use super::api::Server;
use super::draw::Draw;
use super::library::Of;
use super::policy;
use crate::harness::apply::Applier;
use crate::harness::repository::repository;
use crate::harness::stand_in::{NETWORK_NAMESPACE, OPERATOR_NAMESPACE};

pub(super) const CLUSTER_POLICIES: &str = "/apis/nvidia.com/v1/clusterpolicies";
pub(super) const NVIDIA_DRIVERS: &str = "/apis/nvidia.com/v1alpha1/nvidiadrivers";
pub(super) const CLAIMS: &str = "/apis/resource.k8s.io/v1/resourceclaims";
pub(super) const NIC_CLUSTER_POLICIES: &str = "/apis/mellanox.com/v1alpha1/nicclusterpolicies";
/// The namespace of the workloads.
pub(super) const APPS: &str = "apps";
/// The short timeout of some evictions and drains, in seconds. Evictions that the API server grants
/// take less.
pub(super) const SHORT: u64 = 4;
const CRDS: [&str; 3] = [
    "bundles/components/gpu-operator/v26.7.0/crds/nvidia.com_clusterpolicies.yaml",
    "bundles/components/gpu-operator/v26.7.0/crds/nvidia.com_nvidiadrivers.yaml",
    "bundles/components/network-operator/26.4.1/crds/mellanox.com_nicclusterpolicies.yaml",
];
/// The names of the NVIDIADrivers.
const OWNERS: [&str; 2] = ["one", "two"];

/// Returns the namespace of driver and validator pods.
pub(super) fn namespace(driver: Driver) -> &'static str {
    if driver == Driver::Ofed { NETWORK_NAMESPACE } else { OPERATOR_NAMESPACE }
}

/// Creates the objects that all worlds share.
pub(super) async fn prepare(server: &Server) -> Result<()> {
    let applier = Applier::new(server.client());
    for file in CRDS {
        let path = repository(file);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        applier.apply_crd(&serde_yaml::from_str(&text)?).await?;
    }
    for name in [OPERATOR_NAMESPACE, NETWORK_NAMESPACE, APPS] {
        server.create("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await?;
        // No controller creates it, and every pod needs one.
        server
            .create(
                &format!("/api/v1/namespaces/{name}/serviceaccounts"),
                &json!({"metadata": {"name": "default"}}),
            )
            .await?;
    }
    Ok(())
}

/// Deletes the objects of one world.
pub(super) async fn clear(server: &Server) -> Result<()> {
    for path in [CLUSTER_POLICIES, NVIDIA_DRIVERS, NIC_CLUSTER_POLICIES, "/api/v1/nodes"] {
        server.delete(path).await?;
    }
    for namespace in [OPERATOR_NAMESPACE, NETWORK_NAMESPACE, APPS] {
        server.delete(&format!("/api/v1/namespaces/{namespace}/pods")).await?;
        for kind in ["daemonsets", "controllerrevisions"] {
            server.delete(&format!("/apis/apps/v1/namespaces/{namespace}/{kind}")).await?;
        }
    }
    server.delete(&format!("/apis/resource.k8s.io/v1/namespaces/{APPS}/resourceclaims")).await?;
    server.delete(&format!("/apis/policy/v1/namespaces/{APPS}/poddisruptionbudgets")).await
}

/// A driver's DaemonSet.
pub(super) struct DaemonSet {
    pub(super) name: String,
    pub(super) uid: String,
    /// The NVIDIADriver that owns it.
    pub(super) owner: Option<&'static str>,
    /// The digest of the newest template.
    pub(super) digest: usize,
    /// The number of its revisions. A rollback counts as one.
    pub(super) revisions: usize,
    /// The newest revision.
    pub(super) newest: String,
}

/// A node and its objects.
#[derive(Default)]
pub(super) struct Host {
    /// The index of its DaemonSet.
    pub(super) daemon_set: usize,
    /// The names of its driver pods.
    pub(super) drivers: Vec<String>,
    /// The names of its validator pods.
    pub(super) validators: Vec<String>,
    /// The names of its workloads.
    pub(super) workloads: Vec<String>,
}

/// One world.
pub(super) struct World<'s> {
    pub(super) server: &'s Server,
    pub(super) draw: Draw,
    pub(super) of: Of,
    pub(super) daemon_sets: Vec<DaemonSet>,
    pub(super) hosts: BTreeMap<String, Host>,
    /// The UID of the DaemonSet that owns workloads.
    pub(super) agents: String,
    /// The UID of the validator's DaemonSet.
    pub(super) validators: String,
    /// The paths of the policies.
    policies: Vec<String>,
    /// The counter that makes names unique.
    made: usize,
}

impl<'s> World<'s> {
    pub(super) async fn create(server: &'s Server, mut draw: Draw) -> Result<Self> {
        let generation = draw.one(&[
            ControllerGeneration::Gpu26_7,
            ControllerGeneration::Gpu26_7,
            ControllerGeneration::Gpu26_3,
            ControllerGeneration::Gpu26_3,
            ControllerGeneration::Network,
        ]);
        let of = Of { generation };
        let mut world = Self {
            server,
            draw,
            of,
            daemon_sets: Vec::new(),
            hosts: BTreeMap::new(),
            agents: String::new(),
            validators: String::new(),
            policies: Vec::new(),
            made: 0,
        };
        let per_driver = generation == ControllerGeneration::Gpu26_7 && world.draw.once_in(3);
        world.create_policies(per_driver).await?;
        let owners: Vec<Option<&'static str>> =
            if per_driver { OWNERS.into_iter().map(Some).collect() } else { vec![None] };
        for owner in owners {
            world.create_daemon_set(owner).await?;
        }
        world.agents = world.create_other("agents", APPS).await?;
        world.validators = world.create_other("validator", world.namespace()).await?;
        for _ in 0..2 + world.draw.below(5) {
            world.join().await?;
        }
        Ok(world)
    }

    /// Returns a new name.
    pub(super) fn name(&mut self, what: &str) -> String {
        self.made += 1;
        format!("{what}-{:03}", self.made)
    }

    pub(super) fn namespace(&self) -> &'static str {
        namespace(self.of.driver())
    }

    async fn create_policies(&mut self, per_driver: bool) -> Result<()> {
        if self.of.driver() == Driver::Ofed {
            let image = json!({"repository": "nvcr.io/nvidia/mellanox", "image": "doca-driver", "version": "1"});
            let mut ofed = image;
            ofed["upgradePolicy"] = policy::ofed(&mut self.draw);
            let object = json!({"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy",
                "metadata": {"name": "nic-cluster-policy"}, "spec": {"ofedDriver": ofed}});
            self.server.create(NIC_CLUSTER_POLICIES, &object).await?;
            self.policies = vec![format!("{NIC_CLUSTER_POLICIES}/nic-cluster-policy")];
            return Ok(());
        }
        if self.draw.once_in(12) {
            return Ok(());
        }
        let upgrades = policy::gpu(&mut self.draw, !per_driver);
        let mut spec = json!({"driver": {"enabled": true, "useNvidiaDriverCRD": per_driver, "upgradePolicy": upgrades}});
        for section in [
            "daemonsets",
            "dcgm",
            "dcgmExporter",
            "devicePlugin",
            "gfd",
            "nodeStatusExporter",
            "operator",
            "toolkit",
        ] {
            spec[section] = json!({});
        }
        let object = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": spec});
        self.server.create(CLUSTER_POLICIES, &object).await?;
        self.policies = vec![format!("{CLUSTER_POLICIES}/cluster-policy")];
        if per_driver {
            self.policies.clear();
            for owner in OWNERS {
                let mut object = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver", "metadata": {"name": owner},
                    "spec": {"driverType": "gpu", "image": "driver", "repository": "nvcr.io/nvidia", "version": "1"}});
                if !self.draw.once_in(5) {
                    object["spec"]["upgradePolicy"] = policy::gpu(&mut self.draw, false);
                }
                self.server.create(NVIDIA_DRIVERS, &object).await?;
                self.policies.push(format!("{NVIDIA_DRIVERS}/{owner}"));
            }
        }
        Ok(())
    }

    /// Replaces the policy, or changes a part of it.
    pub(super) async fn change_policy(&mut self) -> Result<()> {
        let Some(path) = self.draw.of(&self.policies).cloned() else { return Ok(()) };
        // The wait for jobs uses one selector, that of the policy for all nodes.
        let jobs = self.daemon_sets.iter().all(|daemon_set| daemon_set.owner.is_none());
        let (wanted, field) = match self.of.driver() {
            Driver::Ofed => (policy::ofed(&mut self.draw), "ofedDriver"),
            Driver::Gpu | Driver::DaemonSet => (policy::gpu(&mut self.draw, jobs), "driver"),
        };
        let mut spec = json!({"upgradePolicy": null});
        let mut other = json!({"upgradePolicy": wanted});
        if !path.starts_with(NVIDIA_DRIVERS) {
            spec = json!({field: spec});
            other = json!({field: other});
        }
        // Fields that only the old policy has must not remain.
        self.server.merge(&path, &json!({"spec": spec})).await?;
        self.server.merge(&path, &json!({"spec": other})).await
    }

    /// Switches the sandbox workloads (GPUs for virtual machines) on or off.
    pub(super) async fn sandbox(&mut self) -> Result<()> {
        let enabled = self.draw.once_in(2);
        for path in self.policies.iter().filter(|path| path.starts_with(CLUSTER_POLICIES)) {
            self.server
                .merge(path, &json!({"spec": {"sandboxWorkloads": {"enabled": enabled}}}))
                .await?;
        }
        Ok(())
    }

    pub(super) fn labels(&self, owner: Option<&str>) -> Value {
        match (self.of.driver(), owner) {
            (Driver::Ofed, _) => {
                json!({"app": "mofed", "nvidia.com/ofed-driver": "", "ds-owner": "NicClusterPolicy"})
            }
            (_, Some(owner)) => {
                json!({"app": format!("nvidia-gpu-driver-{owner}"), "app.kubernetes.io/component": "nvidia-driver"})
            }
            (_, None) => {
                json!({"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"})
            }
        }
    }

    async fn create_daemon_set(&mut self, owner: Option<&'static str>) -> Result<()> {
        let name =
            owner.map_or_else(|| "driver".to_owned(), |owner| format!("nvidia-gpu-driver-{owner}"));
        let labels = self.labels(owner);
        let created = self
            .server
            .create(&self.all("daemonsets"), &daemon_set(&name, &labels, &labels["app"], 1))
            .await?;
        let uid = created["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        self.daemon_sets.push(DaemonSet {
            name,
            uid,
            owner,
            digest: 1,
            revisions: 0,
            newest: String::new(),
        });
        self.revise(self.daemon_sets.len() - 1).await
    }

    /// Creates a DaemonSet that is not one of the driver. Returns its UID.
    async fn create_other(&self, name: &str, namespace: &str) -> Result<String> {
        let labels = json!({"app": name});
        let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets");
        let created =
            self.server.create(&path, &daemon_set(name, &labels, &labels["app"], 0)).await?;
        Ok(created["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the path of a kind of apps/v1 in the drivers' namespace.
    fn all(&self, kind: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/{kind}", self.namespace())
    }

    /// Adds a revision to a driver DaemonSet, as the DaemonSet controller would.
    pub(super) async fn revise(&mut self, place: usize) -> Result<()> {
        let path = self.all("controllerrevisions");
        let daemon_set = &mut self.daemon_sets[place];
        daemon_set.revisions += 1;
        daemon_set.newest = format!("r{}", daemon_set.revisions);
        let (name, hash) = (&daemon_set.name, &daemon_set.newest);
        let (owner, uid) = (daemon_set.owner, daemon_set.uid.clone());
        let mut revision = json!({"metadata": {
            "name": format!("{name}-{hash}"),
            "labels": {"controller-revision-hash": hash},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": uid, "controller": true}],
        }, "revision": daemon_set.revisions, "data": {}});
        revision["metadata"]["labels"]["app"] = self.labels(owner)["app"].clone();
        self.server.create(&path, &revision).await.map(drop)
    }

    /// Rolls a driver DaemonSet back to its first revision.
    pub(super) async fn roll_back(&mut self, place: usize) -> Result<()> {
        let path = self.all("controllerrevisions");
        let daemon_set = &mut self.daemon_sets[place];
        daemon_set.revisions += 1;
        "r1".clone_into(&mut daemon_set.newest);
        let revision = json!({"revision": daemon_set.revisions});
        self.server.merge(&format!("{path}/{}-r1", daemon_set.name), &revision).await
    }

    /// Changes the digest in the template of a driver DaemonSet.
    pub(super) async fn change_digest(&mut self, place: usize) -> Result<()> {
        let daemon_set = &mut self.daemon_sets[place];
        daemon_set.digest += 1;
        let template =
            json!({"spec": {"template": {"spec": {"containers": [container(daemon_set.digest)]}}}});
        let path = format!("{}/{}", self.all("daemonsets"), self.daemon_sets[place].name);
        self.server.merge(&path, &template).await
    }

    /// Sets the desired number of a driver DaemonSet to the number of its nodes plus `more`.
    pub(super) async fn count(&self, place: usize, more: i64) -> Result<()> {
        let nodes = self.hosts.values().filter(|host| host.daemon_set == place).count();
        let desired = (i64::try_from(nodes)? + more).max(0);
        let status = json!({"status": {"desiredNumberScheduled": desired, "currentNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}});
        self.server
            .merge(
                &format!("{}/{}/status", self.all("daemonsets"), self.daemon_sets[place].name),
                &status,
            )
            .await
    }
}

/// Returns the container of a driver pod. Digest 0 means none.
pub(super) fn container(digest: usize) -> Value {
    let mut container = json!({"name": "nvidia-driver-ctr", "image": "driver"});
    if digest > 0 {
        container["env"] = json!([{"name": "DRIVER_CONFIG_DIGEST", "value": digest.to_string()}]);
    }
    container
}

fn daemon_set(name: &str, labels: &Value, app: &Value, digest: usize) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": app}}, "updateStrategy": {"type": "OnDelete"}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container(digest)]},
        }},
    })
}
