//! The table of rules that are stricter than the plugin's own verdict. The reference page is
//! checked against it.

use strum::{EnumCount, VariantArray};

use diagnostics::diagnostic::{Diagnostic, Severity};
use diagnostics::source::SourceSpan;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount, VariantArray)]
pub enum ConfigRule {
    /// The plugin refuses the file.
    Refused,
    /// The plugin accepts the file and does not start with it.
    NoStart,
    /// A key that the plugin does not read.
    UnknownKey,
    /// A key that only newer plugins read.
    NewerKey,
    /// A key with another case than the plugin's.
    KeyCase,
    /// A duplicate key.
    DuplicateKey,
    /// A second document.
    SecondDocument,
    /// A boolean of YAML 1.1.
    OldBoolean,
    /// Two sharing strategies at once.
    TwoStrategies,
    /// A resource that is shared twice.
    DuplicateResource,
    /// A name that no device has.
    NoSuchResource,
    /// A MIG name with a strategy in which MIG devices have no names of their own.
    MigName,
    /// A name that is too long after renaming.
    LongName,
    /// `rename`, `devices` or `resources`.
    Ignored,
    /// More replicas than MPS supports.
    MpsReplicas,
    /// `failRequestsGreaterThanOne: false` without effect.
    MpsRequests,
    /// An empty list of strategies.
    NoDeviceList,
    /// A very short sleep, usually a number without a unit.
    ShortSleep,
    /// A setting that the environment replaces.
    Replaced,
    /// Configurations that no node label can select, or nodes without a configuration.
    Selection,
    /// No default for nodes without a label.
    NoDefault,
    /// A version with unknown verdicts.
    NewerPlugin,
}

/// The description of a rule.
pub struct RuleText {
    /// The rule's name in JSON and in the reference.
    pub name: &'static str,
    /// The severity of its findings.
    pub severity: Severity,
    /// What the plugin does.
    pub plugin: &'static str,
    /// Why it is a finding.
    pub why: &'static str,
}

const fn error(name: &'static str, plugin: &'static str, why: &'static str) -> RuleText {
    RuleText { name, severity: Severity::Error, plugin, why }
}

const fn warning(name: &'static str, plugin: &'static str, why: &'static str) -> RuleText {
    RuleText { name, severity: Severity::Warning, plugin, why }
}

/// The descriptions of the rules, in their order.
const TEXTS: [RuleText; ConfigRule::COUNT] = [
    error(
        "refused",
        "cannot read the file and exits",
        "the pods restart forever, and a node whose plugin restarts offers no GPU",
    ),
    error("no-start", "reads the file, then exits", "the same"),
    error("unknown-key", "ignores it silently", "the intended setting is not set"),
    error("newer-key", "ignores it silently", "this version does not know it yet"),
    error(
        "key-case",
        "reads it in some places, and ignores it in others",
        "users should not need to know the places",
    ),
    error(
        "duplicate-key",
        "uses the last and ignores the others",
        "a duplicate setting is never intended",
    ),
    error("second-document", "reads only the first document", "the second document has no effect"),
    warning(
        "old-boolean",
        "reads it as `true` or `false`, as in YAML 1.1",
        "other programs read it as a string",
    ),
    error(
        "two-strategies",
        "uses `mps` and ignores `timeSlicing`",
        "the plugin's documentation calls them exclusive, so one of them is a mistake",
    ),
    error(
        "duplicate-resource",
        "offers the larger number of replicas, and labels the node with the first",
        "the number and the label are inconsistent",
    ),
    error(
        "no-such-resource",
        "ignores it silently",
        "no device has this name, so nothing is shared",
    ),
    warning(
        "mig-name",
        "ignores it silently",
        "MIG devices have names of their own only with the strategy `mixed`",
    ),
    error(
        "long-name",
        "does not check the name again after renaming",
        "the plugin's limit for names is 63 characters",
    ),
    warning("ignored", "logs a warning, and ignores it", "the setting in the file has no effect"),
    warning(
        "mps-replicas",
        "accepts it; the MPS daemon fails on the node",
        "the limit depends on the GPU: 16 clients below compute capability 7.5, otherwise 48",
    ),
    warning(
        "mps-requests",
        "refuses requests for more than one, regardless of the file",
        "only 0.20 and later can disable it",
    ),
    error(
        "no-device-list",
        "starts, and passes no devices to containers",
        "containers have a GPU assigned, but cannot use it",
    ),
    error(
        "short-sleep",
        "reads a number as nanoseconds",
        "GPU feature discovery would check the node without a pause",
    ),
    warning("replaced", "uses the environment variable", "the setting in the file has no effect"),
    error(
        "selection",
        "exits in its init container",
        "a label or default that names no configuration leaves the node without GPUs",
    ),
    warning(
        "no-default",
        "starts with its defaults under the GPU Operator, even if a configuration has the name `default`",
        "users may expect that configuration",
    ),
    warning("newer-plugin", "unknown", "its verdicts were not compared with the plugin's own code"),
];

impl ConfigRule {
    /// All rules.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the rule's description.
    pub fn about(self) -> &'static RuleText {
        &TEXTS[self as usize]
    }

    /// Creates a finding of this rule, with its severity.
    pub fn finding(self, message: impl Into<String>) -> ConfigFinding {
        ConfigFinding {
            rule: self,
            diagnostic: Diagnostic {
                severity: self.about().severity,
                ..Diagnostic::error(message)
            },
        }
    }
}

/// A finding of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigFinding {
    /// The rule.
    pub rule: ConfigRule,
    /// Position, reason and hint.
    pub diagnostic: Diagnostic,
}

impl ConfigFinding {
    /// Sets the position.
    #[must_use]
    pub fn at(self, origin: SourceSpan) -> Self {
        self.with(|diagnostic| diagnostic.at(origin))
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint(hint))
    }

    /// Adds a hint, if there is one.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        self.with(|diagnostic| diagnostic.maybe_hint(hint))
    }

    /// Adds a related position.
    #[must_use]
    pub fn related(self, origin: SourceSpan, label: &str) -> Self {
        self.with(|diagnostic| diagnostic.related(origin, label))
    }

    /// Sets the label of the position.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        self.with(|diagnostic| diagnostic.label(label))
    }

    /// Adds the finding to `findings`.
    pub fn report(self, findings: &mut Vec<Self>) {
        findings.push(self);
    }

    fn with(self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Self {
        Self { diagnostic: change(self.diagnostic), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_own_row() {
        for rule in ConfigRule::ALL {
            let letters = rule.about().name.replace('-', "");
            assert!(letters.eq_ignore_ascii_case(&format!("{rule:?}")), "{rule:?}: {letters}");
        }
    }
}
