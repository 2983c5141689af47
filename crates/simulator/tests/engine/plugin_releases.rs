//! The device plugins that belong to a hook.

use contract::names;
use observed::{ObservedDaemonSet, ObservedRevision};

use crate::fleet::replaced;
use crate::restarts::{configure, daemon_set, pairs, pod, stand_alone};

#[test]
fn plugins_of_another_release_are_left_alone() {
    let another = |release: Option<&str>| {
        let mut fleet = stand_alone(1);
        let instance = |release: &str| pairs(&[(names::HELM_INSTANCE_LABEL, release)]);
        let seen = &mut fleet.observed.device_plugin;
        seen.daemon_sets
            .iter_mut()
            .for_each(|daemon_set| daemon_set.template_labels = instance("nvidia-device-plugin"));
        // A second release of the same chart for other nodes. It has a hook of its own and uses the
        // same ConfigMap.
        let other = ObservedDaemonSet {
            template_labels: instance("trial"),
            ..daemon_set("other", "nvidia-device-plugin-ctr")
        };
        seen.daemon_sets.push(other);
        seen.revisions.push(ObservedRevision {
            owner: "other".into(),
            revision: 1,
            hash: "1".into(),
        });
        pod(&mut fleet, "gpu-0", "other", -5000);
        fleet.settings.device_plugin.release = release.map(str::to_owned);
        configure(&mut fleet, "default", "b", -10);
        replaced(&fleet.decide(0)).len()
    };
    assert_eq!(another(Some("nvidia-device-plugin")), 2, "plugin and discovery of the release");
    assert_eq!(another(Some("trial")), 1);
    assert_eq!(another(Some("gone")), 0, "a release that brings none");
    assert_eq!(another(None), 3, "installed by hand: its release is unknown");
}

#[test]
fn what_the_operator_makes_is_of_no_release() {
    let mut fleet = stand_alone(1);
    fleet.settings.device_plugin.release = Some("gpu-operator".into());
    for daemon_set in &mut fleet.observed.device_plugin.daemon_sets {
        daemon_set.owner = Some("policy".into());
    }
    configure(&mut fleet, "default", "b", -10);
    assert_eq!(replaced(&fleet.decide(0)), ["gpu-0", "gpu-0"]);
}
