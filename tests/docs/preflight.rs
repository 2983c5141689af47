//! `docs/preflight.md` is generated from the table of checks. `UPDATE=1` updates it.

use std::fmt::Write;

use contract::check::{DefaultSeverity, PreflightCheck};

use crate::root;

const HEAD: &str = "# Preflight checks

<!-- Made from crates/contract/src/check.rs; `UPDATE=1 cargo test --test docs` updates it. -->

Did a preflight check stop your rollout, or are you planning one? This page says what each check
finds, whether the finding blocks the rollout, and what to do.

The preflight runs before any node is cordoned. It compares the live cluster with the requirements
of the rollout. `gpu-rollout preflight` runs the same checks from a workstation
([operate.md](operate.md#check-the-cluster-before-a-rollout)). The checks cover:

* nodes and driver DaemonSets;
* pods, PodDisruptionBudgets and ResourceClaims;
* other users and controllers that work on the same nodes.

The preflight checks only the nodes that have the driver's device, such as a GPU. Each finding names
the nodes and pods that it concerns, and says what to do.

## Severity of a finding

* **blocks**: the rollout does not start.
* **warns**: the hook reports the finding, and the rollout starts.
* **cannot be lowered**: you cannot set the check to `warn` or `ignore`. With such a finding, the
  rollout could not work, or would ignore its own policy.

In mode `assist`, every check warns unless you set it to `block`, because the operator upgrades the
nodes with or without the hook.

## Change the severity of a check

Set a check to `block`, `warn` or `ignore`. `ignore` disables the check. In a recipe, the keys are
`rollout.gpuDriver.preflight` and `rollout.ofedDriver.preflight`. In the hook chart, the key is
`rollout.preflight.strictness`. A check that you do not name keeps its default severity.

`block` also applies in mode `assist`: the deployment then fails before the operator gets the new
version.

```yaml
rollout:
  gpuDriver:
    mode: drive
    preflight: {empty-dir: warn, not-ready-nodes: block, foreign-controllers: ignore}
```

## Checks

| Check | Default severity | What it finds | What to do |
|---|---|---|---|
";

fn normally(check: PreflightCheck) -> &'static str {
    // These checks find nothing in mode `assist`.
    let other_modes = [PreflightCheck::Actors, PreflightCheck::ManagerEviction];
    match check.normally() {
        DefaultSeverity::Blocks => "blocks (in mode `assist`: warns)",
        DefaultSeverity::Warns => "warns",
        DefaultSeverity::AlwaysBlocks if other_modes.contains(&check) => {
            "blocks, cannot be lowered"
        }
        DefaultSeverity::AlwaysBlocks => "blocks (in mode `assist`: warns), cannot be lowered",
        DefaultSeverity::BlocksDrive => "blocks in mode `drive`, warns otherwise",
    }
}

#[test]
fn the_checks_are_those_of_the_table() {
    let mut expected = HEAD.to_owned();
    for check in PreflightCheck::ALL {
        let (first, rest) = check.advice().split_at(1);
        let advice = format!("{}{rest}.", first.to_uppercase());
        writeln!(
            expected,
            "| `{}` | {} | {} | {advice} |",
            check.name(),
            normally(check),
            check.finds()
        )
        .unwrap();
    }
    let path = root("docs/preflight.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "docs/preflight.md is stale: UPDATE=1 cargo test --test docs");
}

/// Each check has a complete text without line breaks, because it becomes a cell of the table.
#[test]
fn every_check_says_finding_and_advice() {
    for check in PreflightCheck::ALL {
        let (finds, advice) = (check.finds(), check.advice());
        assert!(finds.ends_with('.') && !finds.contains(['|', '\n']), "{}: {finds}", check.name());
        assert!(
            !advice.is_empty() && !advice.ends_with('.') && !advice.contains(['|', '\n']),
            "{}: {advice}",
            check.name()
        );
    }
}
