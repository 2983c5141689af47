//! Pods of acceptance tests that are deleted: all except those of the current test of a node in
//! progress. No pod outlives its run.

use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceTime};
use observed::acceptance::AcceptancePod;

use crate::action::PodDeletion;
use crate::decide::Action;
use crate::decide::fleet::FleetDraft;
use crate::decide::inputs::FleetInputs;
use crate::decide::modes::drive::DrivenNode;
use crate::decide::modes::drive::acceptance::tests_of;
use crate::decide::node_draft::REPEAT_SECONDS;
use crate::memory::PodRequest;
use crate::write_refusals::WriteRefusals;

/// The existing pods that are not being deleted.
pub(super) struct TestPods<'a> {
    /// Those of the current tests.
    pub(super) current: Vec<&'a AcceptancePod>,
    /// The others.
    pub(super) left_over: Vec<&'a AcceptancePod>,
}

impl<'a> TestPods<'a> {
    pub(super) fn of(fleet: &FleetInputs<'a>) -> Self {
        let pods = fleet.observed.acceptance.iter().filter(|pod| !pod.deleting);
        let (current, left_over) = pods.partition(|pod| is_current(fleet, pod));
        Self { current, left_over }
    }
}

/// Returns whether a pod is the one of the current test of a node in progress, and can still end it.
fn is_current(fleet: &FleetInputs<'_>, pod: &AcceptancePod) -> bool {
    if fleet.is_over() || pod.phase.is_ended_by_kubelet() {
        return false;
    }
    let driven = fleet.observed.nodes.get(&pod.node).and_then(|node| DrivenNode::of(fleet, node));
    let Some(driven) = driven else { return false };
    let (Some(record), Some(own)) = (driven.record(), &driven.pod) else { return false };
    let time = if own.newest { AcceptanceTime::After } else { AcceptanceTime::Before };
    let tests = tests_of(fleet, driven.node, own, record, time);
    record.state.is_in_progress()
        && tests.current(record).is_some_and(|test| tests.pod(test, record) == pod.name)
}

/// Returns whether one of the pods can still be deleted. A deletion that the API server refuses
/// must not keep the run from its end.
pub(super) fn are_deletable(draft: &FleetDraft<'_>, pods: &[&AcceptancePod]) -> bool {
    pods.iter().any(|pod| !is_refused(draft, pod))
}

fn is_refused(draft: &FleetDraft<'_>, pod: &AcceptancePod) -> bool {
    let object = (pod.node.clone(), pod.uid.clone());
    draft.memory.refusals.get(&object).is_some_and(WriteRefusals::is_final)
}

/// Deletes pods. A deletion that was just requested is not repeated, unless no later decision can
/// repeat it: `is_last`.
pub(super) fn delete(
    draft: &mut FleetDraft<'_>,
    pods: &[&AcceptancePod],
    is_last: bool,
) -> Vec<Action> {
    let mut actions = Vec::new();
    for pod in pods {
        let issued = draft.memory.issued.get(&pod.uid).map(|request| request.at);
        let is_requested = issued.is_some_and(|at| {
            at >= draft.now || !is_last && !draft.alarm.passed(at, REPEAT_SECONDS)
        });
        if is_requested || is_refused(draft, pod) {
            continue;
        }
        let request = PodRequest { node: pod.node.clone(), at: draft.now };
        draft.memory.issued.insert(pod.uid.as_str(), request);
        draft.alarm.passed(draft.now, REPEAT_SECONDS);
        actions.push(Action::DeleteAcceptancePod(PodDeletion {
            node: pod.node.clone(),
            namespace: ACCEPTANCE_NAMESPACE.to_owned(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
        }));
    }
    actions
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use contract::settings::Settings;
    use observed::Observed;

    use super::*;
    use crate::device_plugin::DevicePlugins;
    use crate::dra_plugin::DraPlugins;
    use crate::memory::RunMemory;
    use crate::time::after;
    use crate::write_refusals::RefusalKind;

    #[test]
    fn pod_of_no_node_in_progress_is_deleted_once() {
        let pod = |name: &str, deleting| AcceptancePod {
            name: name.into(),
            uid: format!("uid of {name}"),
            node: "gpu-0".into(),
            deleting,
            ..AcceptancePod::default()
        };
        let pods = vec![pod("a", false), pod("b", true)].into();
        let observed = Observed { acceptance: pods, ..Observed::default() };
        let (settings, now) = (Settings::default(), Timestamp::UNIX_EPOCH);
        let memory = RunMemory::new(now, after(now, 1000));
        let plugins = DraPlugins::new(&observed);
        let devices = DevicePlugins::new(&observed, &settings.device_plugin);
        let fleet = FleetInputs::new(&observed, &settings, &memory, now, plugins, devices, false);
        let pods = TestPods::of(&fleet);
        assert_eq!((pods.current.len(), pods.left_over.len()), (0, 1));
        let mut draft = FleetDraft::new(&observed, &settings, memory.clone(), now);
        assert!(are_deletable(&draft, &pods.left_over));
        let actions = delete(&mut draft, &pods.left_over, false);
        let [Action::DeleteAcceptancePod(deletion)] = &actions[..] else {
            panic!("one deletion, not {actions:?}");
        };
        let named = (&*deletion.node, &*deletion.namespace, &*deletion.pod, &*deletion.uid);
        assert_eq!(named, ("gpu-0", ACCEPTANCE_NAMESPACE, "a", "uid of a"));
        assert!(delete(&mut draft, &pods.left_over, true).is_empty(), "it was just requested");
        draft.now = after(now, 1);
        assert!(delete(&mut draft, &pods.left_over, false).is_empty(), "the answer is awaited");
        assert_eq!(delete(&mut draft, &pods.left_over, true).len(), 1, "no later decision does it");
        draft.memory.note_refusal(&actions[0], RefusalKind::Denied, "denied", now);
        draft.now = after(now, 60);
        assert!(delete(&mut draft, &pods.left_over, true).is_empty(), "it was refused");
        assert!(!are_deletable(&draft, &pods.left_over));
    }
}
