//! Keys that users expect in a recipe, but that a bundle cannot support.

use diagnostics::lint::Lint;

/// A key that a recipe cannot have.
pub(super) struct ImpossibleKey {
    /// Keys from the top; `*` means any key.
    path: &'static [&'static str],
    /// The lint whose documentation explains it.
    pub(super) lint: Lint,
    /// Why the key does not exist.
    pub(super) reason: &'static str,
    /// What to write instead.
    pub(super) instead: &'static str,
}

const IMPOSSIBLE: &[ImpossibleKey] = &[
    ImpossibleKey {
        path: &["rollout", "ofedDriver", "policy", "validation"],
        lint: Lint::UnknownField,
        reason: "the Network Operator has no validation: a node is done when its OFED driver is ready",
        instead: "remove it; `driverStart` limits how long that may take",
    },
    several_nodes(&["rollout", "acceptance", "*", "kind"]),
    several_nodes(&["rollout", "acceptance", "*", "parallelism"]),
    several_nodes(&["rollout", "acceptance", "*", "completions"]),
    several_nodes(&["rollout", "acceptance", "*", "replicas"]),
    several_nodes(&["rollout", "acceptance", "*", "job"]),
    deployer(&["components", "*", "wait"], NO_WAIT),
    deployer(&["components", "*", "atomic"], NO_WAIT),
    deployer(&["components", "*", "rollbackOnFailure"], NO_WAIT),
    deployer(&["components", "*", "disableWait"], NO_WAIT),
    deployer(
        &["components", "*", "timeout"],
        "every deployer's timeouts derive from the hook's time budget; a shorter timeout would end a running hook",
    ),
    deployer(
        &["components", "*", "force"],
        "replacing objects fails at immutable fields, and drops fields that others have set",
    ),
    deployer(
        &["components", "*", "skipCrds"],
        "CRDs have a release of their own, so the charts never install them",
    ),
    deployer(
        &["components", "*", "createNamespace"],
        "namespaces have a release of their own, with the Pod Security labels that they need",
    ),
];

const NO_WAIT: &str = "a bundle sets no `--wait` or `--atomic`: with `--wait`, Helm 4 would wait for the upgrade before the hook starts, and `--atomic` \
                       would roll back a slow upgrade";

/// What an acceptance test cannot be.
pub(crate) const ONE_NODE: &str =
    "a test is one pod on one node, and tests that need several nodes are not built yet";

const fn several_nodes(path: &'static [&'static str]) -> ImpossibleKey {
    ImpossibleKey {
        path,
        lint: Lint::UnknownField,
        reason: ONE_NODE,
        instead: "remove it, and set `pod` or `podTemplate`; `nodes` says which nodes are tested",
    }
}

const fn deployer(path: &'static [&'static str], reason: &'static str) -> ImpossibleKey {
    ImpossibleKey {
        path,
        lint: Lint::DeployerSetting,
        reason,
        instead: "remove it; time limits belong in `rollout`",
    }
}

/// Finds the row for this key.
pub(super) fn impossible_key(path: &[String]) -> Option<&'static ImpossibleKey> {
    let matches = |row: &&ImpossibleKey| {
        row.path.len() == path.len()
            && row.path.iter().zip(path).all(|(row, key)| *row == "*" || row == key)
    };
    IMPOSSIBLE.iter().find(matches)
}
