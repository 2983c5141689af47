//! What the format is designed to have and this version does not do: refused in so many words, never ignored.

use diagnostics::lint::Lint;

/// A key or value that is not built.
pub struct UnsupportedKey {
    /// Keys from the top; `*` stands for any one.
    path: &'static [&'static str],
    /// The value, if only that one is not built.
    value: Option<&'static str>,
    /// What it would be for.
    pub purpose: &'static str,
    /// What to write instead.
    pub instead: &'static str,
}

const fn key(path: &'static [&'static str], purpose: &'static str, instead: &'static str) -> UnsupportedKey {
    UnsupportedKey { path, value: None, purpose, instead }
}

const fn value(path: &'static [&'static str], value: &'static str, purpose: &'static str, instead: &'static str) -> UnsupportedKey {
    UnsupportedKey { path, value: Some(value), purpose, instead }
}

const OFED_GATE: &[&str] = &["rollout", "ofedDriver", "gate"];
const GATE: &[&str] = &["rollout", "gpuDriver", "gate"];
const ONLY_SETTLED: &str =
    "write `settled` or remove the key; with `steer` and `drive` nobody would go on with the other nodes once the Job has ended";

const TABLE: &[UnsupportedKey] = &[
    value(GATE, "canary", "going on after the first proven nodes", ONLY_SETTLED),
    value(GATE, "started", "going on as soon as the rollout has started", ONLY_SETTLED),
    key(&["rollout", "gpuDriver", "nodes"], "the number of nodes of the gate `canary`", "remove it"),
    value(OFED_GATE, "canary", "going on after the first proven nodes", ONLY_SETTLED),
    value(OFED_GATE, "started", "going on as soon as the rollout has started", ONLY_SETTLED),
    key(&["rollout", "ofedDriver", "nodes"], "the number of nodes of the gate `canary`", "remove it"),
];

/// A key that looks as if it belonged there, and that there cannot be.
pub struct ImpossibleKey {
    path: &'static [&'static str],
    /// Under which name the documentation explains it.
    pub lint: Lint,
    /// Why there is no such key.
    pub reason: &'static str,
    /// What to write instead.
    pub instead: &'static str,
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
    deployer(&["components", "*", "force"], "replacing objects fails at their immutable fields and drops what others have set"),
    deployer(&["components", "*", "skipCrds"], "CRDs have a release of their own, and the charts never bring them"),
    deployer(
        &["components", "*", "createNamespace"],
        "namespaces have a release of their own, with the Pod Security labels that they need",
    ),
];

const NO_WAIT: &str = "a bundle never waits for a release's objects: what the operators make ready, the hook waits for; `--wait` would wait for \
                       the upgrade that only comes after it, and `--atomic` would undo what takes its time";

const fn deployer(path: &'static [&'static str], reason: &'static str) -> ImpossibleKey {
    ImpossibleKey { path, lint: Lint::DeployerSetting, reason, instead: "remove it; `rollout` has what a recipe says about time" }
}

/// The row for this key.
pub fn impossible_key(path: &[String]) -> Option<&'static ImpossibleKey> {
    IMPOSSIBLE.iter().find(|row| matches(row.path, path))
}

/// The row for this key, whatever its value is.
pub fn unbuilt_key(path: &[String]) -> Option<&'static UnsupportedKey> {
    TABLE.iter().find(|row| row.value.is_none() && matches(row.path, path))
}

/// The row for this value.
pub fn unbuilt_value(path: &[String], text: &str) -> Option<&'static UnsupportedKey> {
    TABLE.iter().find(|row| row.value == Some(text) && matches(row.path, path))
}

fn matches(pattern: &[&str], path: &[String]) -> bool {
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(wanted, key)| *wanted == "*" || wanted == key)
}
