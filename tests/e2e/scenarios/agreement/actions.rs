//! The actions between two passes. Most of them let an upgrade continue, and some of them block it.

use anyhow::Result;
use contract::driver::Driver;
use contract::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use nvidia_upgrade::ControllerState;
use serde_json::{Value, json};

use super::world::{Host, World, container};

/// The actions between two passes.
pub(super) struct Done {
    pub(super) actions: Vec<String>,
    /// Whether the controller's process was killed.
    pub(super) killed: bool,
}

/// An action. Actions that occur more than once in the lists below are drawn more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    ReplaceDrivers,
    ReadyDrivers,
    ReadyValidators,
    Reap,
    Bump,
    BumpDigest,
    BreakDriver,
    CrashDriver,
    BreakValidator,
    LoseValidator,
    SecondValidator,
    Cordon,
    Uncordon,
    Skip,
    Ready,
    AddWorkload,
    FinishWorkload,
    Guard,
    Unguard,
    Policy,
    State,
    Request,
    SafeLoad,
    StartTimes,
    Note,
    Orphan,
    LoseHash,
    RollBack,
    Join,
    Leave,
    Miscount,
    Disown,
    Sandbox,
    Kill,
}

impl Action {
    /// Whether it may end running evictions.
    fn may_end_evictions(self) -> bool {
        matches!(self, Self::Reap | Self::Unguard | Self::FinishWorkload | Self::Leave)
    }

    /// Whether its result depends on which evictions have ended.
    fn depends_on_evictions(self) -> bool {
        matches!(self, Self::State | Self::Kill)
    }
}

const OFTEN: [Action; 4] =
    [Action::ReplaceDrivers, Action::ReadyDrivers, Action::ReadyValidators, Action::Reap];
const RARELY: [Action; 38] = [
    Action::Bump,
    Action::Bump,
    Action::Bump,
    Action::BumpDigest,
    Action::BumpDigest,
    Action::BumpDigest,
    Action::BreakDriver,
    Action::CrashDriver,
    Action::BreakValidator,
    Action::LoseValidator,
    Action::SecondValidator,
    Action::Cordon,
    Action::Uncordon,
    Action::Skip,
    Action::Ready,
    Action::AddWorkload,
    Action::AddWorkload,
    Action::AddWorkload,
    Action::FinishWorkload,
    Action::FinishWorkload,
    Action::Guard,
    Action::Unguard,
    Action::Unguard,
    Action::Policy,
    Action::State,
    Action::Request,
    Action::SafeLoad,
    Action::StartTimes,
    Action::Note,
    Action::Orphan,
    Action::LoseHash,
    Action::RollBack,
    Action::Join,
    Action::Leave,
    Action::Miscount,
    Action::Disown,
    Action::Sandbox,
    Action::Kill,
];

impl World<'_> {
    /// Performs some random actions.
    pub(super) async fn act(&mut self) -> Result<Done> {
        let mut done = Done { actions: Vec::new(), killed: false };
        // Corrects wrong counts of earlier actions, because a wrong count ends every pass.
        for place in 0..self.daemon_sets.len() {
            self.count(place, 0).await?;
        }
        let mut actions = vec![self.draw.one(&OFTEN), self.draw.one(&OFTEN), self.draw.one(&OFTEN)];
        for _ in 0..self.draw.below(3) {
            actions.push(self.draw.one(&RARELY));
        }
        if actions.iter().any(|action| action.may_end_evictions()) {
            actions.retain(|action| !action.depends_on_evictions());
        }
        for action in actions {
            let what = self.happens(action).await?;
            done.killed |= action == Action::Kill;
            done.actions.push(format!("{action:?} {what}"));
        }
        Ok(done)
    }

    fn any_node(&mut self) -> Option<String> {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        self.draw.of(&names).cloned()
    }

    async fn happens(&mut self, action: Action) -> Result<String> {
        let Some(node) = self.any_node() else {
            self.join().await?;
            return Ok("joined, because there was no node".to_owned());
        };
        let traits = self.of.driver().traits();
        match action {
            Action::ReplaceDrivers => self.replace_drivers().await?,
            Action::ReadyDrivers => self.ready_drivers().await?,
            Action::ReadyValidators => self.ready_validators().await?,
            Action::Reap => self.reap().await?,
            Action::Bump | Action::BumpDigest => {
                let place = self.draw.below(self.daemon_sets.len());
                if action == Action::BumpDigest {
                    self.change_digest(place).await?;
                }
                self.revise(place).await?;
            }
            Action::RollBack => {
                let place = self.draw.below(self.daemon_sets.len());
                self.roll_back(place).await?;
            }
            // A pod without the hash ends every pass until it is replaced. A few such worlds are
            // enough.
            Action::LoseHash if !self.draw.once_in(4) => {}
            Action::LoseHash => {
                for name in &self.hosts[&node].drivers {
                    let label = json!({"metadata": {"labels": {"controller-revision-hash": null}}});
                    self.server.merge_if_there(&self.pod(name), &label).await?;
                }
            }
            Action::BreakDriver => {
                self.status_of(&node, false, &unready(0), |host| &host.drivers).await?
            }
            Action::CrashDriver => {
                let restarts = self.draw.one(&[10, 11, 12]);
                self.status_of(&node, false, &unready(restarts), |host| &host.drivers).await?;
            }
            Action::BreakValidator => {
                self.status_of(&node, false, &unready(0), |host| &host.validators).await?
            }
            Action::LoseValidator => self.lose_validators(&node).await?,
            Action::SecondValidator => self.add_validator(&node).await?,
            Action::Cordon => {
                self.patch_node(&node, json!({"spec": {"unschedulable": true}})).await?
            }
            Action::Uncordon => {
                self.patch_node(&node, json!({"spec": {"unschedulable": false}})).await?
            }
            Action::Skip => {
                let value =
                    self.draw.one(&[json!("true"), json!("false"), Value::Null, Value::Null]);
                self.patch_node(&node, json!({"metadata": {"labels": {traits.skip_label: value}}}))
                    .await?;
            }
            Action::Ready => {
                let conditions = self.draw.one(&[
                    json!([]),
                    ready_condition("True"),
                    ready_condition("False"),
                    ready_condition("Unknown"),
                ]);
                self.server
                    .merge(
                        &format!("/api/v1/nodes/{node}/status"),
                        &json!({"status": {"conditions": conditions}}),
                    )
                    .await?;
            }
            Action::AddWorkload => self.add_workload(&node).await?,
            Action::FinishWorkload => self.finish_workload(&node).await?,
            Action::Guard => self.guard().await?,
            Action::Unguard => self.unguard().await?,
            Action::Policy => self.change_policy().await?,
            Action::State => {
                let mut states: Vec<Value> =
                    ControllerState::ALL.into_iter().map(|state| state.label().into()).collect();
                states.extend([Value::Null, "what-is-this".into()]);
                let state = self.draw.one(&states);
                self.patch_node(
                    &node,
                    json!({"metadata": {"labels": {traits.state_label: state}}}),
                )
                .await?;
            }
            Action::Request => {
                let value = self.draw.one(&["true", "true", "yes"]);
                self.patch_node(
                    &node,
                    json!({"metadata": {"annotations": {traits.requested: value}}}),
                )
                .await?;
            }
            Action::SafeLoad => {
                let value = self.draw.one(&[json!("true"), json!(""), Value::Null]);
                self.patch_node(
                    &node,
                    json!({"metadata": {"annotations": {traits.safe_load: value}}}),
                )
                .await?;
            }
            Action::StartTimes => {
                // An exceeded timeout, one that is not exceeded, or an invalid time.
                let ago = |seconds: i64| (Timestamp::now().as_second() - seconds).to_string();
                let value = self.draw.one(&[ago(5_000), ago(5_000), ago(200), "soon".to_owned()]);
                let drawn = self.draw.one(&[traits.wait_start, traits.validation_start]);
                // Nodes in validation are rare, so one always gets an exceeded timeout.
                let validates = !self.validating().await?.is_empty();
                let (key, value) =
                    if validates { (traits.validation_start, ago(5_000)) } else { (drawn, value) };
                self.patch_node(&node, json!({"metadata": {"annotations": {key: value}}})).await?;
                if key == traits.validation_start {
                    self.delay_validations(&value).await?;
                }
            }
            Action::Note => {
                let key = self.draw.one(&[traits.initially_unschedulable, traits.requestor]);
                let value = self.draw.one(&[json!("true"), json!("whatever"), Value::Null]);
                self.patch_node(&node, json!({"metadata": {"annotations": {key: value}}})).await?;
            }
            Action::Sandbox => self.sandbox().await?,
            Action::Orphan => self.add_driver(&node, false).await?,
            Action::Join => self.join().await?,
            Action::Leave => self.leave(&node).await?,
            Action::Miscount => {
                let place = self.draw.below(self.daemon_sets.len());
                let more = self.draw.one(&[-1, 1]);
                self.count(place, more).await?;
            }
            Action::Disown => {
                let owner = self.daemon_sets[self.hosts[&node].daemon_set].owner;
                let value = self.draw.one(&[json!(owner), Value::Null, json!("absent")]);
                if owner.is_some() {
                    self.patch_node(
                        &node,
                        json!({"metadata": {"labels": {names::DRIVER_OWNER_LABEL: value}}}),
                    )
                    .await?;
                }
            }
            Action::Kill => {}
        }
        Ok(node)
    }

    async fn patch_node(&self, node: &str, patch: Value) -> Result<()> {
        self.server.merge(&format!("/api/v1/nodes/{node}"), &patch).await
    }

    fn pod(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{name}", self.namespace())
    }

    /// Returns all pods as JSON.
    async fn pods(&self) -> Result<Vec<Value>> {
        self.server.list("/api/v1/pods").await
    }

    /// Adds a node with its pods.
    pub(super) async fn join(&mut self) -> Result<()> {
        let name = self.name("gpu");
        let daemon_set = self.draw.below(self.daemon_sets.len());
        let mut labels = json!({"nvidia.com/gpu.present": "true"});
        if let Some(owner) = self.daemon_sets[daemon_set].owner {
            labels[names::DRIVER_OWNER_LABEL] = owner.into();
        }
        self.server
            .create("/api/v1/nodes", &json!({"metadata": {"name": name, "labels": labels}}))
            .await?;
        self.server
            .merge(
                &format!("/api/v1/nodes/{name}/status"),
                &json!({"status": {"conditions": ready_condition("True")}}),
            )
            .await?;
        self.hosts.insert(name.clone(), Host { daemon_set, ..Host::default() });
        self.count(daemon_set, 0).await?;
        self.add_driver(&name, true).await?;
        self.status_of(&name, false, &ready(), |host| &host.drivers).await?;
        if self.of.driver() == Driver::Gpu && !self.draw.once_in(8) {
            self.add_validator(&name).await?;
            self.status_of(&name, false, &ready(), |host| &host.validators).await?;
        }
        for _ in 0..self.draw.below(3) {
            self.add_workload(&name).await?;
        }
        Ok(())
    }

    /// Removes a node. Sometimes its pods remain for a while.
    async fn leave(&mut self, node: &str) -> Result<()> {
        self.server.delete(&format!("/api/v1/nodes/{node}")).await?;
        if !self.draw.once_in(3) {
            self.delete_pods_of(node).await?;
        }
        if let Some(host) = self.hosts.remove(node) {
            self.count(host.daemon_set, 0).await?;
        }
        Ok(())
    }

    async fn delete_pods_of(&self, node: &str) -> Result<()> {
        for pod in self.pods().await?.iter().filter(|pod| pod["spec"]["nodeName"] == node) {
            self.delete_pod(pod).await?;
        }
        Ok(())
    }

    async fn delete_pod(&self, pod: &Value) -> Result<()> {
        let text = |pointer: &str| {
            pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        self.server
            .delete(&format!(
                "/api/v1/namespaces/{}/pods/{}",
                text("/metadata/namespace"),
                text("/metadata/name")
            ))
            .await
    }

    /// Completes the deletion of pods, and removes the pods of removed nodes.
    async fn reap(&self) -> Result<()> {
        for pod in self.pods().await? {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
            if !pod["metadata"]["deletionTimestamp"].is_null() || !self.hosts.contains_key(node) {
                self.delete_pod(&pod).await?;
            }
        }
        Ok(())
    }

    /// Creates a driver pod of the newest revision on every node that has none of its DaemonSet.
    async fn replace_drivers(&mut self) -> Result<()> {
        let pods = self.pods().await?;
        let owned = |pod: &Value, uid: &str| pod["metadata"]["ownerReferences"][0]["uid"] == uid;
        let uid = |host: &Host| self.daemon_sets[host.daemon_set].uid.clone();
        let lacks = |(name, host): &(&String, &Host)| {
            let uid = uid(host);
            !pods.iter().any(|pod| pod["spec"]["nodeName"] == name.as_str() && owned(pod, &uid))
        };
        let lacking: Vec<String> =
            self.hosts.iter().filter(lacks).map(|(name, _)| name.clone()).collect();
        for node in lacking {
            self.add_driver(&node, true).await?;
        }
        Ok(())
    }

    async fn add_driver(&mut self, node: &str, has_owner: bool) -> Result<()> {
        let name = self.name("driver");
        let daemon_set = &self.daemon_sets[self.hosts[node].daemon_set];
        let (uid, controller, owner) =
            (daemon_set.uid.clone(), daemon_set.name.clone(), daemon_set.owner);
        let (revision, digest) = (daemon_set.newest.clone(), daemon_set.digest);
        let grace = self.draw.one(&[0, 0, 30]);
        let mut pod = json!({"metadata": {"name": name, "labels": self.labels(owner)}, "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": grace,
            "containers": [container(digest)],
        }});
        if has_owner {
            pod["metadata"]["labels"]["controller-revision-hash"] = revision.into();
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": controller, "uid": uid, "controller": true}]);
        }
        self.server.create(&format!("/api/v1/namespaces/{}/pods", self.namespace()), &pod).await?;
        self.hosts.entry(node.to_owned()).or_default().drivers.push(name);
        Ok(())
    }

    async fn ready_drivers(&self) -> Result<()> {
        let pods = self.pods().await?;
        for node in self.hosts.keys() {
            self.status_among(&pods, node, true, &ready(), |host| &host.drivers).await?;
        }
        Ok(())
    }

    async fn ready_validators(&self) -> Result<()> {
        let pods = self.pods().await?;
        for node in self.hosts.keys() {
            self.status_among(&pods, node, false, &ready(), |host| &host.validators).await?;
        }
        Ok(())
    }

    /// Sets the status of pods of a node. With `keep_crashing`, crashing pods keep theirs.
    async fn status_of(
        &self,
        node: &str,
        keep_crashing: bool,
        status: &Value,
        of: impl Fn(&Host) -> &Vec<String>,
    ) -> Result<()> {
        let pods = self.pods().await?;
        self.status_among(&pods, node, keep_crashing, status, of).await
    }

    async fn status_among(
        &self,
        pods: &[Value],
        node: &str,
        keep_crashing: bool,
        status: &Value,
        of: impl Fn(&Host) -> &Vec<String>,
    ) -> Result<()> {
        for name in of(&self.hosts[node]) {
            let Some(pod) = pods.iter().find(|pod| pod["metadata"]["name"] == name.as_str()) else {
                continue;
            };
            let crashes =
                pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0) > 10;
            if !(keep_crashing && crashes) {
                self.server
                    .merge_if_there(
                        &format!("{}/status", self.pod(name)),
                        &json!({"status": status}),
                    )
                    .await?;
            }
        }
        Ok(())
    }

    /// Sets the start of all running validations, and makes their validators not ready.
    async fn delay_validations(&self, since: &str) -> Result<()> {
        let traits = self.of.driver().traits();
        for node in self.validating().await? {
            self.status_of(&node, false, &unready(0), |host| &host.validators).await?;
            self.patch_node(
                &node,
                json!({"metadata": {"annotations": {traits.validation_start: since}}}),
            )
            .await?;
        }
        Ok(())
    }

    /// Returns the nodes in validation.
    async fn validating(&self) -> Result<Vec<String>> {
        let traits = self.of.driver().traits();
        let selector =
            format!("{}%3D{}", traits.state_label, ControllerState::ValidationRequired.label());
        let nodes =
            self.server.list::<Node>(&format!("/api/v1/nodes?labelSelector={selector}")).await?;
        Ok(nodes
            .iter()
            .map(ResourceExt::name_any)
            .filter(|name| self.hosts.contains_key(name))
            .collect())
    }

    async fn add_validator(&mut self, node: &str) -> Result<()> {
        if self.of.driver() != Driver::Gpu {
            return Ok(());
        }
        let name = self.name("validator");
        let pod = json!({"metadata": {
            "name": name, "labels": {"app": "nvidia-operator-validator"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "validator", "uid": self.validators, "controller": true}],
        }, "spec": {"nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "validator", "image": "validator"}]}});
        self.server.create(&format!("/api/v1/namespaces/{}/pods", self.namespace()), &pod).await?;
        self.hosts.entry(node.to_owned()).or_default().validators.push(name);
        Ok(())
    }

    async fn lose_validators(&mut self, node: &str) -> Result<()> {
        let Some(host) = self.hosts.get_mut(node) else { return Ok(()) };
        for name in std::mem::take(&mut host.validators) {
            self.server.delete(&self.pod(&name)).await?;
        }
        Ok(())
    }
}

fn ready_condition(status: &str) -> Value {
    let now = Timestamp::now();
    json!([{"type": "Ready", "status": status, "reason": "Played", "lastTransitionTime": now, "lastHeartbeatTime": now}])
}

fn status(ready: bool, restarts: i32) -> Value {
    let condition = if ready { "True" } else { "False" };
    json!({"phase": "Running", "conditions": ready_condition(condition), "containerStatuses": [{
        "name": "main", "image": "main", "imageID": "", "ready": ready, "restartCount": restarts,
        "state": {"running": {"startedAt": Timestamp::now()}},
    }]})
}

/// Returns the status of a ready pod.
pub(super) fn ready() -> Value {
    status(true, 0)
}

fn unready(restarts: i32) -> Value {
    status(false, restarts)
}
