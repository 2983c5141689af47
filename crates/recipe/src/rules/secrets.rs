//! Finds secrets in values, which are stored in files, in Git and in the trigger digest.

use super::RuleTarget;
use contract::secret_patterns::{is_secret_key, secret_shape};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::path::KeyPath;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{YamlNode, YamlValue};

/// Checks the values and custom resources of all components, and the pods of acceptance tests.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        for key in ["values", "manifestValues", "customResources"] {
            if let Some(values) = subject.node_at(&["components", &component.name, key]) {
                let mut check = SecretCheck { component: &component.name, findings };
                check.node(&mut KeyPath::default(), values, values.origin);
            }
        }
    }
    for test in &subject.recipe.rollout.acceptance {
        for key in ["pod", "podTemplate"] {
            if let Some(pod) = subject.node_at(&["rollout", "acceptance", &test.name, key]) {
                let mut check = SecretCheck { component: &test.name, findings };
                check.node(&mut KeyPath::default(), pod, pod.origin);
            }
        }
    }
}

/// Returns why a map entry counts as a secret, regardless of the entries below it.
pub(crate) fn entry(key: &str, node: &YamlNode) -> Option<String> {
    let text = node.text().filter(|text| !text.is_empty())?;
    match secret_shape(text) {
        Some(shape) => Some(format!("looks like {shape}")),
        None => {
            is_secret_key(key).then(|| "has the name of a secret and a literal value".to_owned())
        }
    }
}

struct SecretCheck<'a> {
    /// The component or the test.
    component: &'a str,
    findings: &'a mut Vec<Diagnostic>,
}

impl SecretCheck<'_> {
    fn node(&mut self, path: &mut KeyPath, node: &YamlNode, key_origin: SourceSpan) {
        match &node.value {
            YamlValue::Map(entries) => {
                let variable =
                    node.get("name").and_then(YamlNode::text).filter(|name| is_secret_key(name));
                for entry in entries {
                    path.within(&entry.key, |inner| {
                        let is_variable = entry.key == "value" && variable.is_some();
                        if is_variable || is_secret_key(&entry.key) {
                            self.literal(inner, &entry.node, entry.key_origin);
                        }
                        self.node(inner, &entry.node, entry.key_origin);
                    });
                }
            }
            YamlValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.within(index.to_string(), |inner| self.node(inner, item, item.origin));
                }
            }
            YamlValue::String(text) => {
                if let Some(shape) = secret_shape(text) {
                    self.report(path, key_origin, &format!("looks like {shape}"));
                }
            }
            YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) => {}
        }
    }

    /// Reports any string under a key that is named like a secret, unless its shape is reported
    /// already.
    fn literal(&mut self, path: &KeyPath, node: &YamlNode, key_origin: SourceSpan) {
        if let Some(text) = node.text()
            && !text.is_empty()
            && secret_shape(text).is_none()
        {
            self.report(path, key_origin, "has the name of a secret and a literal value");
        }
    }

    fn report(&mut self, path: &KeyPath, origin: SourceSpan, why: &str) {
        Diagnostic::error(format!("`{path}` of `{}` {why}: values must not contain secrets", self.component))
                .lint(Lint::Secret)
                .at(origin)
                .secret()
                .hint("put it into a Kubernetes Secret, and name the Secret where the chart accepts a name (`imagePullSecrets`, `secretName`, `secretEnv`, `valueFrom: {secretKeyRef: {name: …, key: …}}`)")
                .hint("if the chart accepts only the value itself, let your deployer add it (`helm --values` from outside Git, Flux `valuesFrom`)").report(self.findings);
    }
}
