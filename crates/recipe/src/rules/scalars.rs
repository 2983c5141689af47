//! Checks of single values anywhere below a component: amounts, and scalars that YAML versions read
//! differently.

use super::RuleTarget;
use contract::count::Count;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::path::KeyPath;
use diagnostics::tree::{MapEntry, YamlNode};

/// Keys of Kubernetes that take a number or a percentage.
const AMOUNTS: [&str; 3] = ["maxUnavailable", "maxSurge", "minAvailable"];
/// Flux's helm-controller 1.6 panics on a hook with this annotation (fluxcd/helm-controller issue
/// 1562).
const OUTPUT_LOG_POLICY: &str = "helm.sh/hook-output-log-policy";

/// Checks values and custom resources of all components, and the pods of acceptance tests.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        for part in ["values", "customResources"] {
            if let Some(node) = subject.node_at(&["components", &component.name, part]) {
                ScalarCheck { subject, findings }.node(&mut KeyPath::default(), node);
            }
        }
    }
    for test in &subject.recipe.rollout.acceptance {
        let place = ["rollout", "acceptance", &test.name, "podTemplate"];
        if let Some(node) = subject.node_at(&place) {
            ScalarCheck { subject, findings }.node(&mut KeyPath::default(), node);
        }
    }
}

struct ScalarCheck<'a> {
    subject: &'a RuleTarget<'a>,
    findings: &'a mut Vec<Diagnostic>,
}

impl ScalarCheck<'_> {
    fn node(&mut self, path: &mut KeyPath, node: &YamlNode) {
        for entry in node.entries() {
            path.within(&entry.key, |inner| {
                self.entry(inner, entry);
                self.node(inner, &entry.node);
            });
        }
        for (index, item) in node.items().iter().enumerate() {
            path.within(index.to_string(), |inner| self.node(inner, item));
        }
        if !node.is_collection() {
            self.scalar(path, node);
        }
    }

    fn entry(&mut self, path: &KeyPath, entry: &MapEntry) {
        if entry.key == OUTPUT_LOG_POLICY {
            Diagnostic::error(format!("`{OUTPUT_LOG_POLICY}` makes Flux's helm-controller panic repeatedly"))
                .lint(Lint::DeployerSetting)
                .at(entry.key_origin)
                .hint("remove it: a bundle means the same with every deployer; read the log with `kubectl logs job/…`")
                .report(self.findings);
        }
        if let (true, Some(text)) = (AMOUNTS.contains(&entry.key.as_str()), entry.node.text())
            && let Err(error) = text.parse::<Count>()
        {
            let tidy: String =
                text.chars().filter(|character| !character.is_whitespace()).collect();
            Diagnostic::error(format!("`{path}`: {error}"))
                .lint(Lint::WrongType)
                .at(entry.node.origin)
                .maybe_hint(tidy.parse::<Count>().is_ok().then(|| format!("write `{tidy}`")))
                .report(self.findings);
        }
    }

    fn scalar(&mut self, path: &KeyPath, node: &YamlNode) {
        let written = self.subject.sources.written(node.origin);
        let Some(ages) = ScalarReadings::read_scalar(written) else { return };
        // An error at the same place already has a hint.
        if self.findings.iter().any(|finding| finding.place == Some(node.origin)) {
            return;
        }
        let quoted = format!("`\"{written}\"`");
        let hint = match node.text() {
            Some(_) => format!("quote it: {quoted}"),
            None => format!("write `{}`, or {quoted} if it is a string", node.to_json()),
        };
        Diagnostic::warning(format!(
            "`{path}`: `{written}` is {} in YAML 1.1, and {} in YAML 1.2",
            ages.old, ages.new
        ))
        .lint(Lint::OldYaml)
        .at(node.origin)
        .hint(hint)
        .report(self.findings);
    }
}

/// How YAML 1.1 and YAML 1.2 read a plain scalar.
struct ScalarReadings {
    old: &'static str,
    new: &'static str,
}

impl ScalarReadings {
    /// Returns the two readings; `None` if they are the same.
    fn read_scalar(written: &str) -> Option<Self> {
        let ages = |old, new| Some(Self { old, new });
        let digits = written.strip_prefix(['-', '+']).unwrap_or(written);
        let all =
            |text: &str, allowed: fn(u8) -> bool| !text.is_empty() && text.bytes().all(allowed);
        let octal = |byte: u8| (b'0'..=b'7').contains(&byte);
        match written.to_ascii_lowercase().as_str() {
            "y" | "yes" | "on" | "n" | "no" | "off" => return ages("a boolean", "a string"),
            _ => {}
        }
        if digits.len() > 1 && digits.starts_with('0') && all(digits, octal) {
            return ages("an octal number", "a decimal number");
        }
        if digits.strip_prefix("0o").is_some_and(|rest| all(rest, octal)) {
            return ages("a string", "an octal number");
        }
        if digits
            .strip_prefix("0b")
            .is_some_and(|rest| all(rest, |byte| matches!(byte, b'0' | b'1')))
        {
            return ages("a binary number", "a string");
        }
        let starts_with_digit = digits.starts_with(|first: char| first.is_ascii_digit());
        if starts_with_digit
            && digits.contains('_')
            && all(digits, |byte| byte.is_ascii_digit() || byte == b'_')
        {
            return ages("a number", "a string");
        }
        let is_part = |part: &str| {
            part.len() <= 2
                && all(part, |byte| byte.is_ascii_digit())
                && part.parse().is_ok_and(|part: u8| part < 60)
        };
        let mut parts = digits.split(':');
        let first = parts.next().is_some_and(|first| {
            !first.starts_with('0') && all(first, |byte| byte.is_ascii_digit())
        });
        if first && digits.contains(':') && parts.all(is_part) {
            return ages("a base-60 number", "a string");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_parsers_disagree_about() {
        for written in
            ["yes", "Off", "NO", "n", "0644", "-012", "0o17", "0b101", "1_000", "12:30", "12:30:45"]
        {
            assert!(ScalarReadings::read_scalar(written).is_some(), "{written}");
        }
        for written in [
            "true",
            "\"yes\"",
            "0",
            "10",
            "580.126.20",
            "0.1",
            "nvcr.io:443",
            "a_b",
            "_1",
            "1e3",
            "0x1F",
            "12:345",
            "1:2:",
            "02:00:00",
            "::1",
            "089",
        ] {
            assert!(ScalarReadings::read_scalar(written).is_none(), "{written}");
        }
    }
}
