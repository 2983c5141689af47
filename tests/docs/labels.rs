//! `docs/labels.md` has every label and annotation that hooks and commands write on nodes, for each driver, as `contract/driver.rs` has them; `UPDATE=1` writes it.

use std::fmt::Write;

use contract::driver::{Driver, DriverTraits};

use super::json::check;

/// What it is, who writes it, what it means, and its key.
type Row = (&'static str, &'static str, &'static str, fn(&DriverTraits) -> &'static str);

const ROWS: [Row; 8] = [
    (
        "annotation",
        "the hook (`drive`, `steer`)",
        "what must survive of the node's upgrade: its state, since when, whose the cordon is, attempts",
        |traits| traits.own_record,
    ),
    (
        "label",
        "the hook (`drive`, `steer`)",
        "the state of the upgrade; goes when the node is done",
        |traits| traits.own_state_label,
    ),
    (
        "annotation",
        "the hook (`steer`: `true`; before an upgrade of the operator: release, digest, versions and time as JSON), `gpu-rollout pause` (`pause`)",
        "the skip label on the node is our hold, and is taken off by us",
        |traits| traits.hold,
    ),
    (
        "annotation",
        "the hook (`assist`, `steer`)",
        "how often a node that NVIDIA's controller gave up has been tried again",
        |traits| traits.retries,
    ),
    (
        "annotation",
        "the hook (`assist`, `steer`)",
        "the state label on this node, which has no driver, is ours and only there to wake the controller",
        |traits| traits.wake,
    ),
    (
        "label",
        "people, `gpu-rollout skip`; the hook, with the hold beside it",
        "`true`: the node is left on the driver that it has; any other value skips nothing (the hook wakes the controller by one)",
        |traits| traits.skip_label,
    ),
    (
        "annotation",
        "people, `gpu-rollout retry` (`drive`)",
        "`true`: this very node is asked for, its attempts are counted anew, and it is taken although it is cordoned",
        |traits| traits.requested,
    ),
    (
        "label",
        "NVIDIA's controller; the hook and `gpu-rollout retry` to have it look again",
        "the controller's state of the node",
        |traits| traits.state_label,
    ),
];

#[test]
fn every_key_on_nodes_is_described() {
    let mut expected = "\n".to_owned();
    for driver in Driver::ALL {
        let traits = driver.traits();
        writeln!(
            expected,
            "### {}\n\n| Key | What | Who writes it | What it means |\n|---|---|---|---|",
            traits.name
        )
        .unwrap();
        // Of a DaemonSet there is no vendor's controller.
        for (what, who, meaning, key) in ROWS
            .into_iter()
            .filter(|(_, _, _, key)| driver.has_operator() || !key(traits).contains("vendor"))
        {
            writeln!(expected, "| `{}` | {what} | {who} | {meaning} |", key(traits)).unwrap();
        }
        expected.push('\n');
    }
    check("docs/labels.md", &expected);
}
