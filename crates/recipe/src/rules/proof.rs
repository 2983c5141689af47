//! Checks of canaries, ramp and halt, in the modes that have them.

use super::RuleTarget;
use crate::model::DriverRollout;
use contract::proof::check_ramp;
use diagnostics::diagnostic::Diagnostic;

/// The longest soak between steps: a week. It is longer than the soak between nodes can be, because
/// canaries may have to prove the driver over a weekend.
const LONGEST_SOAK_SECONDS: u64 = 7 * 24 * 3600;
const AT_LEAST_ONE: &str = "set a number of at least 1";

/// Checks the policy of each driver.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    // Another rule reports the keys in other modes.
    for driver in subject.recipe.rollout.drivers().filter(|driver| driver.mode.decides()) {
        let check = ProofCheck { subject, driver: &driver };
        check.canary(findings);
        check.ramp(findings);
        check.halt(findings);
    }
}

/// The policy of a driver.
struct ProofCheck<'a> {
    subject: &'a RuleTarget<'a>,
    driver: &'a DriverRollout,
}

impl ProofCheck<'_> {
    /// Returns the error about a key of the policy, such as `["canary", "nodes"]`.
    fn wrong(&self, key: &[&str], problem: &str) -> Diagnostic {
        let keys = [&["rollout", self.driver.key, "policy"][..], key].concat();
        Diagnostic::error(format!("`{}`: {problem}", keys.join("."))).at(self.subject.place(&keys))
    }

    fn canary(&self, findings: &mut Vec<Diagnostic>) {
        let Some(canary) = &self.driver.policy.canary else { return };
        if canary.nodes == 0 {
            self.wrong(&["canary", "nodes"], "no node would be a canary")
                .hint(format!("{AT_LEAST_ONE}, or remove `canary`"))
                .report(findings);
        }
        if canary.soak.as_secs() > LONGEST_SOAK_SECONDS {
            self.wrong(&["canary", "soak"], "must be from 0s to 168h")
                .hint("such as `30m`")
                .report(findings);
        }
        for (index, label) in canary.per.iter().enumerate() {
            if canary.per[..index].contains(label) {
                let index = index.to_string();
                self.wrong(&["canary", "per", index.as_str()], "this label is in the list twice")
                    .hint("keep one of them")
                    .report(findings);
            }
        }
    }

    fn ramp(&self, findings: &mut Vec<Diagnostic>) {
        let Err(error) = check_ramp(&self.driver.policy.ramp) else { return };
        let index = error.index.to_string();
        self.wrong(&["ramp", index.as_str()], &error.to_string())
            .hint(format!(
                "each share contains the nodes of the one before it: write one of more than `{}`, or remove it",
                error.before
            ))
            .report(findings);
    }

    fn halt(&self, findings: &mut Vec<Diagnostic>) {
        let Some(halt) = self.driver.policy.halt else { return };
        for (key, limit) in
            [("failedProofs", Some(halt.failed_proofs)), ("failedNodes", halt.failed_nodes)]
        {
            if limit == Some(0) {
                self.wrong(&["halt", key], "the rollout would halt before its first node")
                    .hint(AT_LEAST_ONE)
                    .report(findings);
            }
        }
        let budget = ["rollout", self.driver.key, "policy", "failureBudget"];
        if halt.failed_nodes.is_some() && self.driver.policy.failure_budget.is_some() {
            self.wrong(
                &["halt", "failedNodes"],
                "`failureBudget` also limits the number of failed nodes",
            )
            .related(self.subject.place(&budget), "also set here")
            .hint("set one of them: a halt stays until a user ends it, a failure budget ends with its run; to remove what a parent sets, write `null`")
            .report(findings);
        }
    }
}
