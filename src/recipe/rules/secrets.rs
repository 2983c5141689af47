//! Secrets never stand in values: values go into files, Git and the trigger digest.

use super::Subject;
use crate::text::diagnostic::Diagnostic;
use crate::text::lint::Lint;
use crate::text::path::Path;
use crate::text::source::Origin;
use crate::text::tree::{Node, Value};

/// How the names of keys that hold secrets end, in lower case and without separators.
const SECRET_KEYS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
    "clientsecret",
    "sharedsecret",
    "credentials",
    "dockerconfigjson",
];

/// How well-known tokens start, and how long they are at least. Sources: the issuers' documentation.
const TOKEN_SHAPES: [(&str, usize); 10] = [
    ("nvapi-", 30),
    ("ghp_", 36),
    ("gho_", 36),
    ("ghs_", 36),
    ("github_pat_", 40),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 20),
    ("hf_", 30),
];

/// Checks the values and custom resources of all components.
pub fn check(subject: &Subject<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        for key in ["values", "customResources"] {
            if let Some(values) = subject.at(&["components", &component.name, key]) {
                let mut check = Check { component: &component.name, findings };
                check.node(&Path::default(), values, values.origin);
            }
        }
    }
}

/// Why one entry of a map is taken for a secret by itself, whatever stands below it.
pub fn entry(key: &str, node: &Node) -> Option<String> {
    let text = node.text().filter(|text| !text.is_empty())?;
    match secret_shape(text) {
        Some(shape) => Some(format!("looks like {shape}")),
        None => is_secret_key(key).then(|| "is named like a secret and has a literal text".to_owned()),
    }
}

struct Check<'a> {
    component: &'a str,
    findings: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
    fn node(&mut self, path: &Path, node: &Node, key_origin: Origin) {
        match &node.value {
            Value::Map(entries) => {
                let variable = node.get("name").and_then(Node::text).filter(|name| is_secret_key(name));
                for entry in entries {
                    let inner = path.child(&entry.key);
                    let is_variable = entry.key == "value" && variable.is_some();
                    if is_variable || is_secret_key(&entry.key) {
                        self.literal(&inner, &entry.node, entry.key_origin);
                    }
                    self.node(&inner, &entry.node, entry.key_origin);
                }
            }
            Value::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.node(&path.child(index.to_string()), item, item.origin);
                }
            }
            Value::String(text) => {
                if let Some(shape) = secret_shape(text) {
                    self.report(path, key_origin, &format!("looks like {shape}"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Under a key that is named like a secret, any text is taken for one, unless its shape has told already.
    fn literal(&mut self, path: &Path, node: &Node, key_origin: Origin) {
        if let Some(text) = node.text()
            && !text.is_empty()
            && secret_shape(text).is_none()
        {
            self.report(path, key_origin, "is named like a secret and has a literal text");
        }
    }

    fn report(&mut self, path: &Path, origin: Origin, why: &str) {
        self.findings.push(
            Diagnostic::error(format!("`{path}` of `{}` {why}: secrets never stand in values", self.component))
                .lint(Lint::Secret)
                .at(origin)
                .secret()
                .hint("put it into a Kubernetes Secret, and name the Secret where the chart takes a name (`imagePullSecrets`, `secretName`, `secretEnv`, `valueFrom: {secretKeyRef: {name: …, key: …}}`)")
                .hint("where the chart takes only the text itself, have your deployer add it (`helm --values` from outside of Git, Flux `valuesFrom`)"),
        );
    }
}

fn is_secret_key(key: &str) -> bool {
    let bare: String = key.chars().filter(char::is_ascii_alphanumeric).map(|character| character.to_ascii_lowercase()).collect();
    SECRET_KEYS.iter().any(|ending| bare.ends_with(ending))
}

fn secret_shape(text: &str) -> Option<&'static str> {
    if text.contains("-----BEGIN ") && text.contains("PRIVATE KEY-----") {
        return Some("a private key");
    }
    let word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+/=".contains(&byte));
    let trimmed = text.trim();
    if TOKEN_SHAPES.iter().any(|(start, length)| trimmed.starts_with(start) && trimmed.len() >= *length && word(trimmed)) {
        return Some("an access token");
    }
    if trimmed.starts_with("eyJ") && trimmed.matches('.').count() == 2 && trimmed.contains(".eyJ") && word(trimmed) {
        return Some("a JSON web token");
    }
    let credentials = trimmed.split_once("://").and_then(|(_, rest)| rest.split('/').next()).and_then(|host| host.split_once('@'));
    credentials
        .is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
        .then_some("an address with a password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shapes() {
        for key in ["password", "registryPassword", "NGC_API_KEY", "aws-secret-key", "licenseToken"] {
            assert!(is_secret_key(key), "{key}");
        }
        for key in ["secretName", "imagePullSecrets", "secretEnv", "tokenSecretName", "key", "config", "passwordSecretRef"] {
            assert!(!is_secret_key(key), "{key}");
        }
        let web_token = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJ4In0", "c2lnbmF0dXJl"].join(".");
        assert_eq!(secret_shape(&web_token), Some("a JSON web token"));
        assert_eq!(secret_shape(&format!("nvapi-{}", "a".repeat(40))), Some("an access token"));
        assert_eq!(secret_shape("https://user:word@registry.example"), Some("an address with a password"));
        for text in ["https://registry.example/a@sha256:b", "580.126.20", "nvapi-", "user@example.org"] {
            assert_eq!(secret_shape(text), None, "{text}");
        }
    }
}
