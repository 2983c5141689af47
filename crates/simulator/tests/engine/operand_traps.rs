//! The configurations of the GPU Operator in which its own status says `ready` too early, or never.
//! In each of them, success must not come early, and an endless wait must have a typed reason with
//! a remedy. [`TRAPS`] has the proof of each, by its number.

use std::path::Path;

mod nodes;
mod policies;
mod pools;
mod precompiled;
mod stale_status;

/// The proof that the hook handles a trap.
enum Proof {
    /// Tests of the engine.
    Tests(&'static [&'static str]),
    /// The trap cannot occur: the reason, and the test that shows it.
    CannotOccur(&'static str, &'static str),
}

use Proof::{CannotOccur, Tests};

/// All traps: the configuration, and its proof.
const TRAPS: [(u8, &str, Proof); 33] = [
    (
        1,
        "the spec was just edited, or the operator's pod just replaced",
        Tests(&[
            "ready_status_with_old_templates_is_not_believed",
            "old_leader_is_not_trusted_after_operator_upgrade",
        ]),
    ),
    (
        2,
        "no pod leads for 15 s or 65 s",
        Tests(&["silent_leader_is_not_trusted", "olm_lease_is_waited_for"]),
    ),
    (
        3,
        "two operators write during a chart upgrade",
        Tests(&[
            "rendered_again_is_waited_for_again",
            "operator_upgrade_replaces_each_driver_once",
        ]),
    ),
    (
        4,
        "no GPU node",
        Tests(&[
            "fleet_without_gpu_nodes_needs_operators_confirmation",
            "trap_04_fleet_without_gpu_nodes_needs_no_templates",
        ]),
    ),
    (
        5,
        "node-feature-discovery has not run",
        Tests(&[
            "fleet_without_gpu_nodes_needs_operators_confirmation",
            "first_discovered_cpu_node_made_cluster_gpu_free",
        ]),
    ),
    (6, "DaemonSets were just created", Tests(&["trap_06_new_daemon_sets_are_not_ready"])),
    (
        7,
        "chart bump up to v26.3, one node done",
        Tests(&["trap_07_bumped_chart_with_partial_nodes_is_unready"]),
    ),
    (
        8,
        "rolling update half way",
        Tests(&[
            "gating_operand_not_current_blocks_success",
            "trap_08_half_rolled_toolkit_is_outdated",
            "trap_08_stalled_toolkit_names_the_awaited_node",
        ]),
    ),
    (
        9,
        "an enabled DaemonSet is absent",
        Tests(&[
            "missing_daemon_set_of_operand_blocks_success",
            "trap_09_absent_driver_and_toolkit_are_missing",
        ]),
    ),
    (
        10,
        "condition Error next to a stale `ready`",
        Tests(&["trap_10_error_condition_outweighs_stale_ready"]),
    ),
    (
        11,
        "an NVIDIADriver rolls and reads `ready`",
        Tests(&[
            "rolling_nvidia_driver_is_judged_by_its_pods",
            "trap_11_rolling_nvidia_driver_is_not_ready",
        ]),
    ),
    (
        12,
        "an NVIDIADriver without nodes is never ready",
        Tests(&["trap_12_nvidia_driver_without_nodes_is_not_awaited"]),
    ),
    (
        13,
        "an NVIDIADriver is ready without a DaemonSet",
        Tests(&[
            "gpu_node_without_owner_is_not_done",
            "trap_13_nvidia_driver_without_daemon_set_is_missing",
        ]),
    ),
    (
        14,
        "a skipped, failed, powered-off node",
        Tests(&[
            "skip_label_of_user_defers_without_failing",
            "failed_nodes_fail_the_run_after_others_finish",
            "powered_off_nodes_are_deferred_within_tolerance_only",
            "trap_14_dead_unlabeled_node_is_tolerated",
        ]),
    ),
    (
        15,
        "ClusterPolicy ready with a skipped node",
        Tests(&["trap_15_skipped_node_is_deferred_not_done"]),
    ),
    (
        16,
        "the last nodes are still cordoned",
        Tests(&["node_is_done_only_after_vendors_controller"]),
    ),
    (
        17,
        "driver-manager has paused a node",
        Tests(&["paused_operand_is_still_waited_for", "trap_17_paused_toolkit_is_not_ready"]),
    ),
    (
        18,
        "an untolerated taint",
        Tests(&[
            "untolerated_taint_is_named_and_does_not_hang",
            "trap_18_tainted_node_is_named_by_blocked_operands",
        ]),
    ),
    (
        19,
        "a driver pod terminates on a dead node",
        Tests(&["trap_19_terminating_pod_of_dead_node_is_named"]),
    ),
    (20, "overlapping pools", Tests(&["failed_nvidia_driver_ends_run_after_grace_time"])),
    (
        21,
        "a node labeled from the default into a pool",
        Tests(&["node_labeled_into_pool_waits_for_its_owner"]),
    ),
    (22, "operands with update strategy OnDelete", Tests(&["operand_on_delete_needs_ready_only"])),
    (
        23,
        "the CRD of ServiceMonitor is missing",
        Tests(&["trap_23_missing_service_monitor_does_not_block"]),
    ),
    (
        24,
        "precompiled: a node without kernel label, a kernel without image",
        Tests(&[
            "trap_24_node_without_kernel_label_ends_run",
            "trap_24_kernel_without_image_is_named",
        ]),
    ),
    (
        25,
        "precompiled: a kernel without nodes",
        Tests(&[
            "daemon_set_without_nodes_is_no_activity",
            "trap_25_flapping_daemon_set_does_not_block",
        ]),
    ),
    (
        26,
        "drivers are disabled and their DaemonSets stay",
        Tests(&["trap_26_left_over_driver_is_not_settled"]),
    ),
    (
        27,
        "sandbox workloads and a driver bump",
        Tests(&["trap_27_sandbox_workloads_name_who_must_upgrade"]),
    ),
    (
        28,
        "ClusterPolicy and GPUCluster",
        Tests(&["trap_28_gpu_cluster_with_cluster_policy_ends_run"]),
    ),
    (
        29,
        "GPUCluster is ready while drivers roll",
        CannotOccur(
            "no status of a GPUCluster is read; a cluster with one instead of a ClusterPolicy is refused",
            "each_grace_time_ends_with_own_exit_code",
        ),
    ),
    (
        30,
        "OLM upgrades the operator",
        Tests(&["trap_30_olm_upgrade_without_new_generation_is_unready"]),
    ),
    (31, "a second ClusterPolicy", Tests(&["trap_31_ignored_cluster_policy_ends_run"])),
    (
        32,
        "ClusterPolicy stays notReady after a missed event",
        Tests(&["trap_32_not_ready_after_missed_event_is_harmless"]),
    ),
    (
        33,
        "an invalid NVIDIADriver, or one without its Secret",
        Tests(&["failed_nvidia_driver_ends_run_after_grace_time"]),
    ),
];

/// Returns the text of all files of the engine's tests.
fn sources(folder: &Path) -> String {
    let mut text_of_all = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = if path.is_dir() {
            sources(&path)
        } else {
            std::fs::read_to_string(&path).expect("a text")
        };
        text_of_all.push_str(&text);
    }
    text_of_all
}

#[test]
fn every_operand_trap_has_its_proof() {
    let numbers: Vec<u8> = TRAPS.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=33).collect::<Vec<u8>>());
    let all_sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine"));
    let mut named = Vec::new();
    for (number, trap, proof) in &TRAPS {
        let tests: &[&str] = match proof {
            Tests(tests) => tests,
            CannotOccur(why, test) => {
                assert!(!why.is_empty(), "{number}: {trap}");
                std::slice::from_ref(test)
            }
        };
        assert!(!tests.is_empty(), "{number}: {trap}");
        for test in tests {
            assert!(
                all_sources.contains(&format!("fn {test}(")),
                "{number} ({trap}): there is no test `{test}`"
            );
            let own = test
                .strip_prefix("trap_")
                .and_then(|rest| rest.split('_').next()?.parse::<u8>().ok());
            assert!(own.is_none_or(|own| own == *number), "{number}: {test}");
            named.push(*test);
        }
    }
    let numbered = all_sources
        .split("fn trap_")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    for name in numbered {
        assert!(
            named.contains(&format!("trap_{name}").as_str()),
            "the table does not name trap_{name}"
        );
    }
}
