//! Lines 47 to 55: the start of nodes.

use contract::policy::Policy;
use nvidia_upgrade::pass::{PassError, PassWrite, pass_with};
use nvidia_upgrade::{ControllerGeneration, ControllerState, PassOptions, pass};

use super::fixture::{
    cordoned, enabled, node, old, one, options, orphaned, rules, snapshot, with, writes,
};

const REQUEST_GONE: &str = "a: nvidia.com/gpu-driver-upgrade-requested removed";

fn digests(
    pod: Option<&'static str>,
    template: Option<&'static str>,
) -> nvidia_upgrade::snapshot::NodeEntry<'static> {
    with(old("a", ControllerState::UpgradeRequired), |entry| {
        (entry.pod.digest, entry.pod.template_digest) = (pod, template);
    })
}

#[test]
fn line_047_the_request_goes_and_the_node_starts() {
    let entry = with(orphaned("a", ControllerState::UpgradeRequired), |entry| {
        entry.notes.requested = Some("true");
    });
    assert_eq!(one(entry), [REQUEST_GONE, "a: cordon-required"]);
}

#[test]
fn line_048_request_is_removed_without_a_start() {
    let skipped = with(old("a", ControllerState::UpgradeRequired), |entry| {
        (entry.notes.requested, entry.skip) = (Some("true"), Some("true"));
    });
    assert_eq!(one(skipped), [REQUEST_GONE]);
    let waiting = with(old("a", ControllerState::UpgradeRequired), |entry| {
        entry.notes.requested = Some("true");
    });
    let no_node = enabled(Policy {
        max_unavailable: Some("0".parse().expect("a count")),
        ..Policy::default()
    });
    assert_eq!(writes(&pass(&snapshot([waiting]), &no_node, &options())), [REQUEST_GONE]);
}

#[test]
fn line_049_a_refused_label_ends_the_pass() {
    let entries = [
        old("a", ControllerState::UpgradeRequired),
        old("b", ControllerState::UpgradeRequired),
        old("c", ControllerState::CordonRequired),
    ];
    let refused = PassWrite::State { node: "a".into(), state: ControllerState::CordonRequired };
    let outcome =
        pass_with(&snapshot(entries), &rules(), &options(), &mut |write| *write != refused);
    assert_eq!(outcome.error, Some(PassError::Refused { write: refused }));
    assert_eq!(outcome.writes, []);
}

#[test]
fn line_050_same_digest_restarts_driver_only() {
    assert_eq!(one(digests(Some("7"), Some("7"))), ["a: cordon", "a: pod-restart-required"]);
    assert_eq!(one(cordoned(digests(Some("7"), Some("7")))), ["a: pod-restart-required"]);
    // The controller does not check whether the pod is out of date (appendix A of the original's
    // defects: it then never evicts a pod).
    let in_sync = with(digests(Some("7"), Some("7")), |entry| {
        entry.pod.revision = node("a", ControllerState::Done).pod.revision;
    });
    assert_eq!(one(in_sync), ["a: cordon", "a: pod-restart-required"]);
}

#[test]
fn line_051_other_or_missing_digests_upgrade_fully() {
    for (pod, template) in [
        (Some("7"), Some("8")),
        (None, Some("7")),
        (Some("7"), None),
        (None, None),
        (Some(""), Some("")),
    ] {
        assert_eq!(one(digests(pod, template)), ["a: cordon-required"], "{pod:?} {template:?}");
    }
    for generation in
        [ControllerGeneration::Gpu25, ControllerGeneration::Gpu26_3, ControllerGeneration::Network]
    {
        let older = PassOptions { generation, ..options() };
        assert_eq!(
            writes(&pass(&snapshot([digests(Some("7"), Some("7"))]), &rules(), &older)),
            ["a: cordon-required"],
            "{generation:?}"
        );
    }
}

#[test]
fn line_052_requested_orphaned_and_loading_drivers_upgrade_fully() {
    let same = || digests(Some("7"), Some("7"));
    let requested = with(same(), |entry| entry.notes.requested = Some("true"));
    assert_eq!(one(requested), [REQUEST_GONE, "a: cordon-required"]);
    let loading = with(same(), |entry| entry.notes.safe_load = Some("true"));
    assert_eq!(one(loading), ["a: cordon-required"]);
    let orphan = with(same(), |entry| {
        entry.pod.revision = orphaned("a", ControllerState::Done).pod.revision;
    });
    assert_eq!(one(orphan), ["a: cordon-required"]);
}

#[test]
fn line_053_refused_cordon_does_not_stop_others() {
    let entries = [
        digests(Some("7"), Some("7")),
        with(digests(Some("7"), Some("7")), |entry| entry.node = "b"),
    ];
    let refused = PassWrite::Cordon { node: "a".into() };
    let outcome =
        pass_with(&snapshot(entries), &rules(), &options(), &mut |write| *write != refused);
    assert_eq!(writes(&outcome), ["b: cordon", "b: pod-restart-required"]);
    assert_eq!(outcome.swallowed, [PassError::Refused { write: refused }]);
}

#[test]
fn node_without_start_passes_its_slot_on() {
    let one_at_a_time =
        enabled(Policy { max_parallel_upgrades: 1, max_unavailable: None, ..Policy::default() });
    let entries = [
        digests(Some("7"), Some("7")),
        with(digests(Some("7"), Some("7")), |entry| entry.node = "b"),
    ];
    let refused = PassWrite::Cordon { node: "a".into() };
    let outcome =
        pass_with(&snapshot(entries), &one_at_a_time, &options(), &mut |write| *write != refused);
    assert_eq!(writes(&outcome), ["b: cordon", "b: pod-restart-required"]);
}

#[test]
fn line_055_cordoned_node_skips_the_cordon_step() {
    assert_eq!(
        one(old("a", ControllerState::CordonRequired)),
        ["a: cordon", "a: wait-for-jobs-required"]
    );
    assert_eq!(
        one(cordoned(old("a", ControllerState::CordonRequired))),
        ["a: wait-for-jobs-required"]
    );
}
