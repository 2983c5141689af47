//! Pods that their DaemonSet or the operator replaces, and those that only the hook restarts.

use contract::settings::ConfigFallback;
use contract::task::Task;
use observed::{ClusterPolicy, ObservedRevision, OptionalApi};

use super::{add_plugin, add_revisions, configure, pairs, pod, stand_alone};
use crate::fleet::{Fleet, replaced, waits};

#[test]
fn pods_their_daemon_set_replaces_are_left_alone() {
    let mut fleet = stand_alone(1);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    for owner in ["plugin", "discovery"] {
        fleet.observed.device_plugin.revisions.push(ObservedRevision {
            owner: owner.into(),
            revision: 2,
            hash: "2".into(),
        });
    }
    let decision = fleet.decide(100);
    assert!(decision.actions.is_empty());
    assert_eq!(waits(&decision), ["gpu-0:RestartRolling"]);
    for daemon_set in &mut fleet.observed.device_plugin.daemon_sets {
        daemon_set.on_delete = true;
    }
    assert_eq!(
        replaced(&fleet.decide(101)),
        ["gpu-0", "gpu-0"],
        "with OnDelete, only the hook does"
    );
}

#[test]
fn pods_wait_until_update_strategy_is_known() {
    type Arrange = fn(&mut Fleet);
    let cases: [(Arrange, Arrange); 3] = [
        (
            |fleet| {
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.observed = false);
            },
            |fleet| {
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.observed = true);
            },
        ),
        (|fleet| fleet.observed.device_plugin.revisions.clear(), |fleet| add_revisions(fleet)),
        (
            |fleet| {
                let labels = pairs(&[("helm.sh/chart", "gpu-operator-v2"), ("app", "reserved")]);
                let policy =
                    ClusterPolicy { uid: "policy".into(), labels, ..ClusterPolicy::default() };
                fleet.observed.cluster_policy = OptionalApi::Served(Some(policy));
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.owner = Some("policy".into()));
            },
            |fleet| {
                let labels = pairs(&[("helm.sh/chart", "gpu-operator-v2")]);
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.template_labels.clone_from(&labels));
            },
        ),
    ];
    for (index, (before, after)) in cases.into_iter().enumerate() {
        let mut fleet = stand_alone(1);
        fleet.pass(0);
        configure(&mut fleet, "default", "b", 90);
        before(&mut fleet);
        let decision = fleet.decide(100);
        assert_eq!(
            (decision.actions.len(), waits(&decision)),
            (0, vec!["gpu-0:RestartRolling".to_owned()]),
            "case {index}"
        );
        after(&mut fleet);
        assert_eq!(replaced(&fleet.decide(101)), ["gpu-0", "gpu-0"], "case {index}");
    }
}

#[test]
fn only_stand_alone_plugin_is_restarted_after_driver() {
    for (owner, restarted) in [(None, 2), (Some("policy".to_owned()), 0)] {
        let mut fleet = Fleet::at_rest(1);
        fleet.settings.tasks = vec![Task::Settle, Task::RestartPlugins];
        fleet.settings.device_plugin.config_map = Some("plugins".into());
        fleet.settings.device_plugin.fallbacks = vec![ConfigFallback::Empty];
        add_plugin(&mut fleet, 1);
        let chart = fleet.policy().labels["helm.sh/chart"].clone();
        for daemon_set in &mut fleet.observed.device_plugin.daemon_sets {
            daemon_set.owner.clone_from(&owner);
            daemon_set.template_labels = pairs(&[("helm.sh/chart", &chart)]);
        }
        for owner in ["plugin", "discovery"] {
            pod(&mut fleet, "gpu-0", owner, -4900);
        }
        assert!(fleet.decide(0).well, "{owner:?}");
        fleet.bump();
        fleet.migration_begins();
        assert!(fleet.decide(10).actions.is_empty(), "the driver comes first");
        fleet.migrate("gpu-0", 20);
        fleet.pass(21);
        assert_eq!(fleet.decide(23).actions.len(), restarted, "{owner:?}");
        assert!(fleet.decide(24).actions.is_empty());
        for owner in ["plugin", "discovery"] {
            pod(&mut fleet, "gpu-0", owner, 25);
        }
        assert!(fleet.decide(26).well, "{owner:?}");
    }
}
