//! Keys that look as if they belonged to a recipe, and that there cannot be.

use diagnostics::lint::Lint;

/// A key that there cannot be.
pub(super) struct ImpossibleKey {
    /// Keys from the top; `*` stands for any one.
    path: &'static [&'static str],
    /// Under which name the documentation explains it.
    pub(super) lint: Lint,
    /// Why there is no such key.
    pub(super) reason: &'static str,
    /// What to write instead.
    pub(super) instead: &'static str,
}

const IMPOSSIBLE: &[ImpossibleKey] = &[
    ImpossibleKey {
        path: &["rollout", "ofedDriver", "policy", "validation"],
        lint: Lint::UnknownField,
        reason: "the network operator validates nothing: a node is done when its OFED driver is ready",
        instead: "remove it; `driverStart` limits how long that may take",
    },
    deployer(&["components", "*", "wait"], NO_WAIT),
    deployer(&["components", "*", "atomic"], NO_WAIT),
    deployer(&["components", "*", "rollbackOnFailure"], NO_WAIT),
    deployer(&["components", "*", "disableWait"], NO_WAIT),
    deployer(
        &["components", "*", "timeout"],
        "timeouts of every deployer are made from the hook's budget; one beside it would end the hook in its work",
    ),
    deployer(
        &["components", "*", "force"],
        "replacing objects fails at their immutable fields and drops what others have set",
    ),
    deployer(
        &["components", "*", "skipCrds"],
        "CRDs have a release of their own, and the charts never bring them",
    ),
    deployer(
        &["components", "*", "createNamespace"],
        "namespaces have a release of their own, with the Pod Security labels that they need",
    ),
];

const NO_WAIT: &str = "a bundle never waits for a release's objects: what the operators make ready, the hook waits for; `--wait` would wait for \
                       the upgrade that only comes after it, and `--atomic` would undo what takes its time";

const fn deployer(path: &'static [&'static str], reason: &'static str) -> ImpossibleKey {
    ImpossibleKey {
        path,
        lint: Lint::DeployerSetting,
        reason,
        instead: "remove it; `rollout` has what a recipe says about time",
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
