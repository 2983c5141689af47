//! Checks of acceptance tests: each is one pod that the hook can run on one node.

use super::RuleTarget;
use super::rollout::LONGEST_SECONDS;
use crate::model::RecipeAcceptanceTest;
use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceNodes, AcceptanceTime, MOST_LOG_LINES};
use contract::names::GPU_OPERATOR;
use contract::settings::Mode;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::tree::YamlNode;

mod pod;

/// The list of tests.
const LIST: [&str; 2] = ["rollout", "acceptance"];

/// Checks all tests.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    namespaces(subject, findings);
    let tests = &subject.recipe.rollout.acceptance;
    if tests.is_empty() {
        return;
    }
    let mode = subject.recipe.rollout.gpu_driver.mode;
    if !mode.decides() {
        findings.push(without_effect(subject, mode));
        return;
    }
    used(subject, findings);
    for test in tests {
        let check = TestCheck { subject, test };
        check.times(findings);
        check.log(findings);
        check.nodes(findings);
        check.pods(findings);
    }
}

/// Reports components in the namespace of the tests: the hook may delete every pod there that has
/// the label of a test.
fn namespaces(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        if component.namespace.as_deref() == Some(ACCEPTANCE_NAMESPACE) {
            Diagnostic::error(format!(
                "`{}` cannot be deployed into `{ACCEPTANCE_NAMESPACE}`, the namespace of acceptance tests",
                component.name
            ))
            .at(subject.place(&["components", &component.name, "namespace"]))
            .hint("use another namespace")
            .report(findings);
        }
    }
}

/// Returns the error about tests in a mode in which the hook does not decide.
fn without_effect(subject: &RuleTarget<'_>, mode: Mode) -> Diagnostic {
    let mut finding = Diagnostic::error(format!(
        "`rollout.acceptance` has no effect in mode `{}`: NVIDIA's controller uncordons the nodes, so no test can keep one cordoned",
        mode.name()
    ))
    .lint(Lint::ModeConflict)
    .hint("set `rollout.gpuDriver.mode` to `steer` or `drive`, or remove the key; if a parent sets it, write `acceptance: null`");
    if let Some(entry) = subject.node_at(&["rollout"]).and_then(|node| node.entry("acceptance")) {
        finding = finding.at(entry.key_origin);
    }
    if let Some(written) = subject.node_at(&["rollout", "gpuDriver", "mode"]) {
        finding = finding.related(written.origin, format!("mode `{}`", mode.name()));
    }
    finding
}

/// Reports tests of a driver that the bundle does not deploy.
fn used(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let reason = match subject.component(GPU_OPERATOR) {
        None => "the recipe does not deploy `gpu-operator`",
        Some(operator) if operator.is_on(&["driver", "enabled"]) == Some(false) => {
            "`driver.enabled` is false, so no driver is rolled out"
        }
        Some(_) => return,
    };
    let entry = subject.node_at(&["rollout"]).and_then(|node| node.entry("acceptance"));
    Diagnostic::warning(format!("`rollout.acceptance` has no effect: {reason}"))
        .lint(Lint::NoEffect)
        .at(entry.map_or_else(|| subject.place(&LIST), |entry| entry.key_origin))
        .hint("remove it; if a parent sets it, write `acceptance: null`")
        .report(findings);
}

/// The check of one test.
struct TestCheck<'a> {
    subject: &'a RuleTarget<'a>,
    test: &'a RecipeAcceptanceTest,
}

impl TestCheck<'_> {
    /// Returns the keys of a value of the test.
    fn keys<'k>(&'k self, key: &[&'k str]) -> Vec<&'k str> {
        [&LIST[..], &[self.test.name.as_str()], key].concat()
    }

    /// Returns the error about a value of the test.
    fn wrong(&self, key: &[&str], problem: &str) -> Diagnostic {
        let keys = self.keys(key);
        Diagnostic::error(format!("`{}`: {problem}", keys.join("."))).at(self.subject.place(&keys))
    }

    /// Returns the value at these keys of the test.
    fn node(&self, key: &[&str]) -> Option<&YamlNode> {
        self.subject.node_at(&self.keys(key))
    }

    fn times(&self, findings: &mut Vec<Diagnostic>) {
        let test = self.test;
        if !(1..=LONGEST_SECONDS).contains(&test.timeout.as_secs()) {
            self.wrong(&["timeout"], "must be from 1s to 24h")
                .hint("such as `10m`; it includes the pull of the image")
                .report(findings);
        }
        if test.when.is_empty() {
            self.wrong(&["when"], "the test would never run")
                .hint("write `[after]`, `[before]` or `[before, after]`; without the key, the test runs after the upgrade")
                .report(findings);
        }
        for (index, time) in test.when.iter().enumerate() {
            let key = index.to_string();
            if test.when[..index].contains(time) {
                self.wrong(&["when", &key], "this time is in the list twice")
                    .hint("keep one of them")
                    .report(findings);
            } else if *time == AcceptanceTime::Before
                && self.subject.recipe.rollout.gpu_driver.mode == Mode::Steer
            {
                Diagnostic::warning(format!(
                    "the test `{}` does not run before the upgrade in mode `steer`: NVIDIA's controller evicts the workloads, after the hook has released the node",
                    test.name
                ))
                .lint(Lint::NoEffect)
                .at(self.subject.place(&self.keys(&["when", &key])))
                .hint("remove `before`, or use mode `drive`")
                .report(findings);
            }
        }
    }

    fn log(&self, findings: &mut Vec<Diagnostic>) {
        if self.test.log_lines > MOST_LOG_LINES {
            self.wrong(&["logLines"], &format!("must be from 0 to {MOST_LOG_LINES}"))
                .hint("the lines are kept on the node, so there is little room; a whole log is for a log collector")
                .report(findings);
        }
    }

    /// Checks that there are canaries if the test runs only on them, or on them and others.
    fn nodes(&self, findings: &mut Vec<Diagnostic>) {
        let needs_canaries = match self.test.nodes {
            AcceptanceNodes::All => false,
            AcceptanceNodes::Canaries | AcceptanceNodes::Share(_) => true,
        };
        if needs_canaries && self.subject.recipe.rollout.gpu_driver.policy.canary.is_none() {
            self.wrong(
                &["nodes"],
                &format!("`{}` contains the canaries, and there are none", self.test.nodes),
            )
            .hint("set `rollout.gpuDriver.policy.canary`, or write `nodes: all`")
            .report(findings);
        }
    }

    /// Checks that there is one pod, and that the hook can run it.
    fn pods(&self, findings: &mut Vec<Diagnostic>) {
        match (&self.test.pod, &self.test.pod_template) {
            (None, None) => {
                self.wrong(&[], "the test has no pod")
                    .hint("set `pod` with an `image`, or `podTemplate` with a PodTemplateSpec")
                    .report(findings);
            }
            (Some(_), Some(_)) => {
                self.wrong(&["podTemplate"], "the test has two pods")
                    .related(self.subject.place(&self.keys(&["pod"])), "also set here")
                    .hint("keep one of them; to remove what a parent sets, write `null`")
                    .report(findings);
            }
            (Some(_), None) => self.short_pod(findings),
            (None, Some(_)) => self.pod_template(findings),
        }
    }
}
