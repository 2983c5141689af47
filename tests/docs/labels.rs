//! `docs/labels.md` has every label and annotation of `contract/driver.rs` that hooks and commands
//! write on nodes, for each driver. `UPDATE=1` updates it.

use std::fmt::Write;

use contract::driver::{Driver, DriverTraits};

use super::json::check;

/// Label or annotation, the writer, the meaning, and the key.
type Row = (&'static str, &'static str, &'static str, fn(&DriverTraits) -> &'static str);

const ROWS: [Row; 8] = [
    (
        "annotation",
        "the hook (`drive`, `steer`)",
        "the upgrade record: the node's state and since when, whether the cordon is the hook's, and the attempts",
        |traits| traits.own_record,
    ),
    (
        "label",
        "the hook (`drive`, `steer`)",
        "the state of the node's upgrade; the hook removes the label when the node is done",
        |traits| traits.own_state_label,
    ),
    (
        "annotation",
        "the hook (`assist`, `steer`), `gpu-rollout pause`, `gpu-rollout abort --stay-paused`",
        "gpu-rollout set the skip label on the node (a *hold*), and removes it again. The value is `pause`, `true` (`steer`), or, during an upgrade of the operator, JSON with release, digest, versions and time",
        |traits| traits.hold,
    ),
    (
        "annotation",
        "the hook (`assist`, `steer`)",
        "how many times the hook has retried a node on which NVIDIA's controller gave up",
        |traits| traits.retries,
    ),
    (
        "annotation",
        "the hook (`assist`, `steer`)",
        "the node has no driver, and its state label is one that the hook set only to wake the controller",
        |traits| traits.wake,
    ),
    (
        "label",
        "users, `gpu-rollout skip`; the hook, together with the hold annotation",
        "`true`: the node keeps the driver that it has. Any other value skips nothing; the hook sets one to wake the controller",
        |traits| traits.skip_label,
    ),
    (
        "annotation",
        "users, `gpu-rollout retry` (`drive`)",
        "`true`: a request to upgrade this node, even if it is cordoned. Its attempts are counted from zero again",
        |traits| traits.requested,
    ),
    (
        "label",
        "NVIDIA's controller; the hook and `gpu-rollout retry`, so that the controller checks the node again",
        "the state of the node's upgrade by NVIDIA's controller",
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
        // NVIDIA's controller does not upgrade a DaemonSet of the user.
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
