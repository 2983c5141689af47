//! Secrets never stand in values: values go into files, Git and the trigger digest.

use super::RuleTarget;
use contract::secret::{is_secret_key, secret_shape};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::path::KeyPath;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{YamlNode, YamlValue};

/// Checks the values and custom resources of all components.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        for key in ["values", "customResources"] {
            if let Some(values) = subject.node_at(&["components", &component.name, key]) {
                let mut check = SecretCheck { component: &component.name, findings };
                check.node(&KeyPath::default(), values, values.origin);
            }
        }
    }
}

/// Why one entry of a map is taken for a secret by itself, whatever stands below it.
pub(crate) fn entry(key: &str, node: &YamlNode) -> Option<String> {
    let text = node.text().filter(|text| !text.is_empty())?;
    match secret_shape(text) {
        Some(shape) => Some(format!("looks like {shape}")),
        None => {
            is_secret_key(key).then(|| "is named like a secret and has a literal text".to_owned())
        }
    }
}

struct SecretCheck<'a> {
    component: &'a str,
    findings: &'a mut Vec<Diagnostic>,
}

impl SecretCheck<'_> {
    fn node(&mut self, path: &KeyPath, node: &YamlNode, key_origin: SourceSpan) {
        match &node.value {
            YamlValue::Map(entries) => {
                let variable =
                    node.get("name").and_then(YamlNode::text).filter(|name| is_secret_key(name));
                for entry in entries {
                    let inner = path.child(&entry.key);
                    let is_variable = entry.key == "value" && variable.is_some();
                    if is_variable || is_secret_key(&entry.key) {
                        self.literal(&inner, &entry.node, entry.key_origin);
                    }
                    self.node(&inner, &entry.node, entry.key_origin);
                }
            }
            YamlValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.node(&path.child(index.to_string()), item, item.origin);
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

    /// Under a key that is named like a secret, any text is taken for one, unless its shape has told already.
    fn literal(&mut self, path: &KeyPath, node: &YamlNode, key_origin: SourceSpan) {
        if let Some(text) = node.text()
            && !text.is_empty()
            && secret_shape(text).is_none()
        {
            self.report(path, key_origin, "is named like a secret and has a literal text");
        }
    }

    fn report(&mut self, path: &KeyPath, origin: SourceSpan, why: &str) {
        Diagnostic::error(format!("`{path}` of `{}` {why}: secrets never stand in values", self.component))
                .lint(Lint::Secret)
                .at(origin)
                .secret()
                .hint("put it into a Kubernetes Secret, and name the Secret where the chart takes a name (`imagePullSecrets`, `secretName`, `secretEnv`, `valueFrom: {secretKeyRef: {name: …, key: …}}`)")
                .hint("where the chart takes only the text itself, have your deployer add it (`helm --values` from outside of Git, Flux `valuesFrom`)").report(self.findings);
    }
}
