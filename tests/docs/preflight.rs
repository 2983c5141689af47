//! `docs/preflight.md` is made from the table of checks; `UPDATE=1 cargo test --test docs` writes it.

use std::fmt::Write;

use contract::check::{DefaultSeverity, PreflightCheck};

use crate::root;

const HEAD: &str = "# What a preflight looks at

<!-- Made from crates/contract/src/check.rs; `UPDATE=1 cargo test --test docs` writes it anew. -->

Before anything is cordoned, the live cluster is held against what a rollout needs: its pods, PodDisruptionBudgets and ResourceClaims, its nodes and driver
DaemonSets, and who else is at work. Only nodes with the device count. Each finding names the nodes and pods that it concerns, and what to do.

A finding that *blocks* keeps the rollout from beginning; one that *warns* is told and nothing else. In mode `assist` all of them only warn: the operator would go on without us.

What becomes of the findings of a check is yours to say: `block`, `warn` or `ignore`, in a recipe as `rollout.gpuDriver.preflight` and `rollout.ofedDriver.preflight`, in the hook
chart as `rollout.preflight.strictness`. `block` holds in `assist` too: the deployment then fails before the operator sees the new version. What is not named is as the table
says. What *blocks, always* cannot be turned down: two would upgrade the same nodes, or nobody, or evictions would go round the policy.

```yaml
rollout:
  gpuDriver:
    mode: drive
    preflight: {empty-dir: warn, not-ready-nodes: block, foreign-controllers: ignore}
```

| Check | Normally | What it finds | What to do |
|---|---|---|---|
";

fn normally(check: PreflightCheck) -> &'static str {
    match check.normally() {
        DefaultSeverity::Blocks => "blocks",
        DefaultSeverity::Warns => "warns",
        DefaultSeverity::AlwaysBlocks => "blocks, always",
        DefaultSeverity::BlocksDrive => "blocks in mode `drive`, warns otherwise",
    }
}

#[test]
fn the_checks_are_those_of_the_table() {
    let mut expected = HEAD.to_owned();
    for check in PreflightCheck::ALL {
        let (first, rest) = check.advice().split_at(1);
        let advice = format!("{}{rest}.", first.to_uppercase());
        writeln!(expected, "| `{}` | {} | {} | {advice} |", check.name(), normally(check), check.finds()).unwrap();
    }
    let path = root("docs/preflight.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "docs/preflight.md is stale: UPDATE=1 cargo test --test docs");
}

/// A cell of the table is one line, and the text of each check says something of its own.
#[test]
fn every_check_says_finding_and_advice() {
    for check in PreflightCheck::ALL {
        let (finds, advice) = (check.finds(), check.advice());
        assert!(finds.ends_with('.') && !finds.contains(['|', '\n']), "{}: {finds}", check.name());
        assert!(!advice.is_empty() && !advice.ends_with('.') && !advice.contains(['|', '\n']), "{}: {advice}", check.name());
    }
}
