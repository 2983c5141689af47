//! The hook leaves pods alone that do not belong to the device plugin.

use observed::ObservedRevision;

use crate::fleet::replaced;
use crate::restarts::{configure, daemon_set, pod, stand_alone};

#[test]
fn foreign_daemon_set_with_config_map_is_untouched() {
    for owner in [None, Some("another-owner".to_owned())] {
        let mut fleet = stand_alone(1);
        let mut exporter = daemon_set("exporter", "exporter");
        exporter.owner = owner;
        fleet.observed.device_plugin.daemon_sets =
            vec![exporter, daemon_set("plugin", "nvidia-device-plugin-ctr")];
        fleet.observed.device_plugin.revisions.push(ObservedRevision {
            owner: "exporter".into(),
            revision: 1,
            hash: "1".into(),
        });
        pod(&mut fleet, "gpu-0", "exporter", -5000);
        fleet.pass(0);
        configure(&mut fleet, "default", "b", 90);
        let decision = fleet.decide(100);
        assert_eq!(replaced(&decision), ["gpu-0"], "only the plugin");
    }
}
