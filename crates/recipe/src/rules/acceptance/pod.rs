//! Checks of a test's pod: what the hook sets itself, and what the namespace refuses.

use super::TestCheck;
use crate::model::AcceptancePodSecurity;
use crate::shape::ONE_NODE;
use contract::acceptance::AcceptanceGpus;
use contract::grammar::shown;
use contract::image_reference::{is_image_reference, is_pinned};
use contract::names::PREFIX;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::tree::YamlNode;

const REMOVE: &str = "remove it";
const PLACED: &str = "the hook places the pod on the node that it tests";
/// Fields of a pod that the hook sets, or that would keep the pod from its node: the reason, and
/// what to do.
const SET_BY_HOOK: [(&str, &str, &str); 7] = [
    ("nodeName", PLACED, "remove it; `nodes` says which nodes are tested"),
    ("nodeSelector", PLACED, "remove it; `nodes` says which nodes are tested"),
    ("affinity", PLACED, "remove it; `nodes` says which nodes are tested"),
    ("topologySpreadConstraints", PLACED, REMOVE),
    (
        "activeDeadlineSeconds",
        "the hook sets it to the `timeout` of the test",
        "set the `timeout` of the test",
    ),
    (
        "preemptionPolicy",
        "the API server refuses it in pods: it belongs into a PriorityClass",
        REMOVE,
    ),
    ("schedulingGates", "nothing would remove the gates, so the pod would never start", REMOVE),
];
/// Fields of Kubernetes' and others' jobs, which have more than one pod.
const OF_JOBS: [&str; 8] = [
    "completions",
    "jobTemplate",
    "mpiReplicaSpecs",
    "parallelism",
    "replicas",
    "replicatedJobs",
    "slotsPerWorker",
    "template",
];
/// Fields of the metadata that the hook sets.
const OF_METADATA: [&str; 3] = ["generateName", "name", "namespace"];
/// Fields with which a pod shares a namespace of its host.
const HOST_NAMESPACES: [&str; 3] = ["hostIPC", "hostNetwork", "hostPID"];
/// The capabilities that a container may add at the Pod Security level `baseline`.
const BASELINE_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The starts of the names of GPU resources.
const GPU_RESOURCES: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/mig-"];
/// The name of the claim that the hook adds to a pod.
const GPU_CLAIM: &str = "gpus";

impl TestCheck<'_> {
    /// Checks a pod in the short form.
    pub(super) fn short_pod(&self, findings: &mut Vec<Diagnostic>) {
        let Some(pod) = self.node(&["pod"]) else { return };
        self.container(&["pod"], pod, findings);
        for entry in pod.get("env").map(YamlNode::entries).unwrap_or_default() {
            if entry.node.text().is_none() {
                let written = self.subject.sources.written(entry.node.origin);
                self.wrong(
                    &["pod", "env", &entry.key],
                    &format!("expected a string, found {}", entry.node.kind()),
                )
                .hint(if entry.node.is_collection() {
                    "for a value from a Secret or a ConfigMap, use `podTemplate`".to_owned()
                } else {
                    format!("quote it, so that YAML does not change it: `\"{written}\"`")
                })
                .report(findings);
            }
        }
    }

    /// Checks a PodTemplateSpec.
    pub(super) fn pod_template(&self, findings: &mut Vec<Diagnostic>) {
        const HERE: &str = "podTemplate";
        let Some(template) = self.node(&[HERE]) else { return };
        let is_job = self.refuses_jobs(&[HERE], template, findings);
        let spec = template.get("spec");
        let is_job =
            is_job || spec.is_some_and(|spec| self.refuses_jobs(&[HERE, "spec"], spec, findings));
        if is_job {
            return;
        }
        for key in ["apiVersion", "kind"] {
            if template.get(key).is_some() {
                self.wrong(&[HERE, key], "a pod template has no such key")
                    .hint("remove it, and write only `metadata` and `spec` of the pod")
                    .report(findings);
            }
        }
        self.metadata(template, findings);
        let Some(spec) = spec.filter(|spec| spec.is_map()) else {
            self.wrong(&[HERE], "the pod template has no `spec`")
                .hint("write `spec: {containers: [{name: test, image: …}]}`, or use the short form `pod`")
                .report(findings);
            return;
        };
        self.own_fields(spec, findings);
        self.host(spec, findings);
        let containers = spec.get("containers").map(YamlNode::items).unwrap_or_default();
        if containers.is_empty() {
            self.wrong(&[HERE, "spec"], "the pod has no containers")
                .hint("write `containers: [{name: test, image: …}]`")
                .report(findings);
        }
        for list in ["initContainers", "containers"] {
            let items = spec.get(list).map(YamlNode::items).unwrap_or_default();
            for (index, container) in items.iter().enumerate() {
                let name = container.get("name").and_then(YamlNode::text);
                let key = name.map_or_else(|| index.to_string(), str::to_owned);
                let place = [HERE, "spec", list, key.as_str()];
                if name.is_none() {
                    self.wrong(&place, "the container has no `name`")
                        .hint("add one, such as `name: test`")
                        .report(findings);
                }
                self.container(&place, container, findings);
            }
        }
    }

    /// Reports what belongs to a job of several pods, and returns whether there is any.
    fn refuses_jobs(
        &self,
        place: &[&str],
        node: &YamlNode,
        findings: &mut Vec<Diagnostic>,
    ) -> bool {
        let kind = node.get("kind").and_then(YamlNode::text);
        let is_job = kind.is_some_and(|kind| !["Pod", "PodTemplate"].contains(&kind));
        let wrong = if is_job {
            Some("kind")
        } else {
            OF_JOBS.into_iter().find(|key| node.get(key).is_some())
        };
        let Some(key) = wrong else { return false };
        self.wrong(&[place, &[key]].concat(), ONE_NODE)
            .hint("write the template of one pod: `metadata` and `spec`")
            .report(findings);
        true
    }

    fn metadata(&self, template: &YamlNode, findings: &mut Vec<Diagnostic>) {
        let place = ["podTemplate", "metadata"];
        let Some(metadata) = template.get("metadata") else { return };
        for key in OF_METADATA {
            if metadata.get(key).is_some() {
                self.wrong(&[&place[..], &[key]].concat(), "the hook names the pod")
                    .hint(REMOVE)
                    .report(findings);
            }
        }
        for key in ["labels", "annotations"] {
            let entries = metadata.get(key).map(YamlNode::entries).unwrap_or_default();
            let own = format!("{PREFIX}/");
            for entry in entries.iter().filter(|entry| entry.key.starts_with(&own)) {
                self.wrong(
                    &[&place[..], &[key, entry.key.as_str()]].concat(),
                    "the hook knows its pods by keys that start like this one",
                )
                .hint("remove it, or use a prefix of your own")
                .report(findings);
            }
        }
    }

    /// Reports fields that the hook sets.
    fn own_fields(&self, spec: &YamlNode, findings: &mut Vec<Diagnostic>) {
        let place = |key: &'static str| ["podTemplate", "spec", key];
        for (key, reason, instead) in SET_BY_HOOK {
            if spec.get(key).is_some() {
                self.wrong(&place(key), reason).hint(instead).report(findings);
            }
        }
        let restarts = spec.get("restartPolicy").and_then(YamlNode::text);
        if restarts.is_some_and(|policy| policy != "Never") {
            self.wrong(&place("restartPolicy"), "a test runs once, so the hook sets `Never`")
                .hint(REMOVE)
                .report(findings);
        }
        let claims = spec.get("resourceClaims").map(YamlNode::items).unwrap_or_default();
        let is_own =
            |claim: &YamlNode| claim.get("name").and_then(YamlNode::text) == Some(GPU_CLAIM);
        if self.test.gpus == AcceptanceGpus::All && claims.iter().any(is_own) {
            self.requested_twice(&["podTemplate", "spec", "resourceClaims", GPU_CLAIM], findings);
        }
    }

    /// Reports that the pod shares a namespace or files of its host, if its namespace refuses that.
    fn host(&self, spec: &YamlNode, findings: &mut Vec<Diagnostic>) {
        for key in HOST_NAMESPACES {
            if spec.get(key).and_then(YamlNode::boolean) == Some(true) {
                self.refused(&["podTemplate", "spec", key], "a namespace of the host", findings);
            }
        }
        let volumes = spec.get("volumes").map(YamlNode::items).unwrap_or_default();
        for (index, volume) in volumes.iter().enumerate() {
            let name = volume.get("name").and_then(YamlNode::text);
            let key = name.map_or_else(|| index.to_string(), str::to_owned);
            if volume.get("hostPath").is_some() {
                let place = ["podTemplate", "spec", "volumes", key.as_str(), "hostPath"];
                self.refused(&place, "files of the host", findings);
            }
        }
    }

    /// Checks a container, or a pod in the short form.
    fn container(&self, place: &[&str], container: &YamlNode, findings: &mut Vec<Diagnostic>) {
        let key = |keys: &[&'static str]| [place, keys].concat();
        match container.get("image").and_then(YamlNode::text) {
            None => self
                .wrong(place, "the container has no `image`")
                .hint("add one, such as `nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04`")
                .report(findings),
            // In the short form, the grammar reports it.
            Some(image) if !is_image_reference(image) => {
                if place != ["pod"] {
                    self.wrong(
                        &key(&["image"]),
                        &format!("`{}` is not the reference of an image", shown(image)),
                    )
                    .hint("write registry, path and tag, without `https://`")
                    .report(findings);
                }
            }
            Some(image) if !is_pinned(image) => Diagnostic::warning(format!(
                "`{image}` has no tag and no digest, so nodes may be tested with different images"
            ))
            .at(self.subject.place(&self.keys(&key(&["image"]))))
            .hint("add the tag of a version, or a digest")
            .report(findings),
            Some(_) => {}
        }
        self.gpu_resources(place, container, findings);
        let Some(security) = container.get("securityContext") else { return };
        if security.get("privileged").and_then(YamlNode::boolean) == Some(true) {
            let place = key(&["securityContext", "privileged"]);
            self.refused(&place, "privileged containers", findings);
        }
        let added = security.at_keys(&["capabilities", "add"]).map(YamlNode::items);
        let mut added = added.unwrap_or_default().iter().filter_map(YamlNode::text);
        if let Some(capability) = added.find(|name| !BASELINE_CAPABILITIES.contains(name)) {
            let place = key(&["securityContext", "capabilities", "add"]);
            self.refused(&place, &format!("the capability `{}`", shown(capability)), findings);
        }
    }

    /// Reports GPUs in a container of a pod that gets all GPUs of its node.
    fn gpu_resources(&self, place: &[&str], container: &YamlNode, findings: &mut Vec<Diagnostic>) {
        if self.test.gpus == AcceptanceGpus::Template {
            return;
        }
        for kind in ["requests", "limits"] {
            let entries = container.at_keys(&["resources", kind]).map(YamlNode::entries);
            let is_gpu = |key: &str| GPU_RESOURCES.iter().any(|resource| key.starts_with(resource));
            if let Some(entry) = entries.unwrap_or_default().iter().find(|entry| is_gpu(&entry.key))
            {
                self.requested_twice(
                    &[place, &["resources", kind, entry.key.as_str()]].concat(),
                    findings,
                );
            }
        }
    }

    fn requested_twice(&self, place: &[&str], findings: &mut Vec<Diagnostic>) {
        self.wrong(place, "with `gpus: all`, the hook requests all GPUs of the node")
            .lint(Lint::SetTwice)
            .hint("remove it, or write `gpus: template`")
            .report(findings);
    }

    /// Reports what the Pod Security level of the tests' namespace refuses.
    fn refused(&self, place: &[&str], what: &str, findings: &mut Vec<Diagnostic>) {
        let level = match self.subject.recipe.rollout.acceptance_pod_security {
            AcceptancePodSecurity::Privileged => return,
            AcceptancePodSecurity::Baseline => "baseline",
            AcceptancePodSecurity::Restricted => "restricted",
        };
        self.wrong(
            place,
            &format!("the Pod Security level `{level}` refuses {what}, so every node would fail"),
        )
        .hint("remove it, or set `rollout.acceptancePodSecurity: privileged`")
        .report(findings);
    }
}
