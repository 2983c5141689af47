//! A server with few objects, for tests of single calls and watches.

use hook::RunClock;
use kube::Client;
use planner::action::NodePatch;
use serde_json::{Value, json};

use crate::fake::Server;
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::fake::rights::Grant;
use crate::fake::store::Key;
use crate::world::at;

/// A server with one node and pods of a workload on it.
pub(crate) struct Rig {
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let server = Server::new(RunClock::starting_at(at(0)));
        for (verb, group, resource) in [
            ("patch", "", "nodes"),
            ("create", "", "pods/eviction"),
            ("list", "", "pods"),
            ("watch", "", "pods"),
            ("create", "", "pods"),
            ("get", "", "podtemplates"),
        ] {
            server.change(|state| state.grants.push(Grant::everywhere(verb, group, resource)));
        }
        let rig = Self { client: server.client("pod-a"), server };
        rig.put("nodes", "", "node-1", json!({"kind": "Node", "apiVersion": "v1", "metadata": {"uid": "n1", "labels": {"old": "x"}}}));
        rig.pod("train-0", "node-1");
        rig.pod("train-1", "node-1");
        rig
    }

    pub(crate) fn pod(&self, name: &str, node: &str) {
        let metadata = json!({"uid": name, "labels": {"app": "train"}});
        let spec = json!({"nodeName": node, "containers": []});
        self.put(
            "pods",
            "jobs",
            name,
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}),
        );
    }

    pub(crate) fn remove_pod(&self, name: &str) {
        self.server.change(|state| state.store.remove(&Key::new("pods", "jobs", name)));
    }

    pub(crate) fn put(&self, resource: &str, namespace: &str, name: &str, object: Value) {
        self.server
            .change(|state| state.store.create(Key::new(resource, namespace, name), object, at(0)));
    }

    pub(crate) fn budget(&self, name: &str, allowed: u32) {
        let budget = json!({"spec": {"selector": {"matchLabels": {"app": "train"}}}, "status": {"disruptionsAllowed": allowed}});
        self.put("poddisruptionbudgets", "jobs", name, budget);
    }

    pub(crate) fn fault(&self, effect: Effect) {
        self.server.state().faults.push(Fault::new(Request::is_write, 0, 1, effect));
    }

    pub(crate) fn node(&self) -> Value {
        self.server.state().store.objects[&Key::new("nodes", "", "node-1")].clone()
    }

    pub(crate) fn is_evicted(&self, name: &str) -> bool {
        !self.server.state().store.objects[&Key::new("pods", "jobs", name)]["metadata"]["deletionTimestamp"].is_null()
    }

    pub(crate) fn requests(&self) -> usize {
        self.server.state().log.len()
    }

    pub(crate) fn patch(&self) -> NodePatch {
        let text = |field: &str| self.node()["metadata"][field].as_str().unwrap().to_owned();
        NodePatch {
            node: "node-1".into(),
            uid: text("uid"),
            version: text("resourceVersion"),
            ..NodePatch::default()
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.server.state().violations, Vec::<String>::new());
        }
    }
}
