//! Label selectors, which the operators and the hook read only when an upgrade is under way.

use super::Subject;
use crate::contract::selector::{Selector, is_label_key};
use crate::recipe::model::UpgradePolicy;
use crate::text::diagnostic::Diagnostic;

/// Checks every label selector of the rollout, and the label of topology groups.
pub fn check(subject: &Subject<'_>, findings: &mut Vec<Diagnostic>) {
    let rollout = &subject.recipe.rollout;
    policy(subject, "gpuDriver", &rollout.gpu_driver.policy, findings);
    if let Some(driver) = &rollout.ofed_driver {
        policy(subject, "ofedDriver", &driver.policy.common(), findings);
    }
}

fn policy(subject: &Subject<'_>, driver: &str, policy: &UpgradePolicy, findings: &mut Vec<Diagnostic>) {
    let wait = policy.wait_for_completion.as_ref().map(|wait| ("waitForCompletion", &wait.pod_selector));
    let drain = policy.drain.as_ref().and_then(|drain| drain.pod_selector.as_ref()).map(|selector| ("drain", selector));
    for (key, selector) in wait.into_iter().chain(drain) {
        if let Err(error) = selector.parse::<Selector>() {
            findings.push(wrong(error.to_string()).at(subject.place(&["rollout", driver, "policy", key, "podSelector"])));
        }
    }
    let written = subject.at(&["rollout", driver, "policy", "extraConsumers"]);
    for (index, selector) in policy.extra_consumers.iter().enumerate() {
        let place = written.and_then(|list| list.items().get(index)).map(|item| item.origin);
        let problem = match selector.parse::<Selector>() {
            Err(error) => error.to_string(),
            Ok(parsed) if parsed.is_everything() => "an empty selector takes every pod for one that uses the device".to_owned(),
            Ok(_) => continue,
        };
        let place = place.unwrap_or_else(|| subject.place(&["rollout", driver, "policy", "extraConsumers"]));
        findings.push(wrong(problem).at(place));
    }
    if let Some(topology) = policy.topology.as_ref().filter(|topology| !is_label_key(&topology.label)) {
        findings.push(
            Diagnostic::error(format!("`{}` is no key of a label", topology.label))
                .at(subject.place(&["rollout", driver, "policy", "topology", "label"]))
                .hint("write the key of a node label alone, such as `nvidia.com/gpu.clique` or `topology.kubernetes.io/rack`"),
        );
    }
}

fn wrong(problem: String) -> Diagnostic {
    Diagnostic::error(problem).hint("label selectors look like `app=train`, `tier in (a,b)`, `!keep`; commas join what must all hold")
}
