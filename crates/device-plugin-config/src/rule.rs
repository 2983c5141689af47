//! What is judged beside the plugin's own verdict: the one table. The reference page is checked against it.

use strum::{EnumCount, VariantArray};

use diagnostics::diagnostic::{Diagnostic, Severity};
use diagnostics::source::SourceSpan;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumCount, VariantArray)]
pub enum ConfigRule {
    /// The plugin does not take the file.
    Refused,
    /// The plugin takes the file and does not start with it.
    NoStart,
    /// A key that the plugin does not read.
    UnknownKey,
    /// A key that only newer plugins read.
    NewerKey,
    /// A key whose letters are not those of the plugin's own name for it.
    KeyCase,
    /// A key that stands twice.
    DuplicateKey,
    /// A second document.
    SecondDocument,
    /// A boolean of YAML 1.1.
    OldBoolean,
    /// Two ways to share at once.
    TwoStrategies,
    /// A resource that is shared twice.
    DuplicateResource,
    /// A name that no device has.
    NoSuchResource,
    /// A MIG name where MIG devices have no names of their own.
    MigName,
    /// A name that grows over the limit.
    LongName,
    /// `rename`, `devices` or `resources`.
    Ignored,
    /// More replicas than MPS has.
    MpsReplicas,
    /// `failRequestsGreaterThanOne: false` that does not count.
    MpsRequests,
    /// An empty list of strategies.
    NoDeviceList,
    /// Hardly any sleep, mostly a number without a unit.
    ShortSleep,
    /// A setting that the environment replaces.
    Replaced,
    /// Configurations that no node can choose, or nodes that get none.
    Selection,
    /// No default for nodes without a label.
    NoDefault,
    /// A version whose verdicts are not known.
    NewerPlugin,
}

/// What is told about a rule.
pub struct RuleText {
    /// Its name in JSON and in the reference.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What the plugin does.
    pub plugin: &'static str,
    /// Why more is said about it than the plugin says.
    pub why: &'static str,
}

const fn error(name: &'static str, plugin: &'static str, why: &'static str) -> RuleText {
    RuleText { name, severity: Severity::Error, plugin, why }
}

const fn warning(name: &'static str, plugin: &'static str, why: &'static str) -> RuleText {
    RuleText { name, severity: Severity::Warning, plugin, why }
}

/// What is told about the rules, in their order.
const TEXTS: [RuleText; ConfigRule::COUNT] = [
    error(
        "refused",
        "cannot read the file and exits",
        "the pods restart for ever, and a node whose plugin restarts offers no GPU",
    ),
    error("no-start", "reads the file, then exits", "the same"),
    error("unknown-key", "passes over it without a word", "what was meant to be set is not"),
    error("newer-key", "passes over it without a word", "this version does not know it yet"),
    error(
        "key-case",
        "takes it in some places and passes over it in others",
        "nobody should have to know where",
    ),
    error(
        "duplicate-key",
        "takes the last and drops the others",
        "nobody writes a setting twice on purpose",
    ),
    error(
        "second-document",
        "reads the first document only",
        "what stands in the second has no effect",
    ),
    warning(
        "old-boolean",
        "takes it for `true` or `false`, as YAML 1.1 does",
        "other programs read it as a text",
    ),
    error(
        "two-strategies",
        "takes `mps` and drops `timeSlicing`",
        "its own documentation calls them exclusive; one of them is not wanted",
    ),
    error(
        "duplicate-resource",
        "offers the larger number of replicas, and labels the node with the first",
        "number and label contradict each other",
    ),
    error(
        "no-such-resource",
        "passes over it without a word",
        "no device has this name, so nothing is shared",
    ),
    warning(
        "mig-name",
        "passes over it without a word",
        "MIG devices have names of their own only with the strategy `mixed`",
    ),
    error(
        "long-name",
        "does not look at the name again after renaming",
        "its own limit for names is 63 characters",
    ),
    warning(
        "ignored",
        "writes a warning into its log and ignores it",
        "the file says something that does not happen",
    ),
    warning(
        "mps-replicas",
        "takes it; the MPS daemon fails on the node",
        "the limit depends on the GPU: 16 clients below compute capability 7.5, 48 from there on",
    ),
    warning(
        "mps-requests",
        "refuses requests for more than one whatever the file says",
        "only 0.20 and later let it be switched off",
    ),
    error(
        "no-device-list",
        "starts, and tells no container about its devices",
        "containers get a GPU assigned and do not see it",
    ),
    error(
        "short-sleep",
        "takes a number for nanoseconds",
        "GPU feature discovery would look at the node without a pause",
    ),
    warning(
        "replaced",
        "takes the environment variable",
        "the file says something that does not happen",
    ),
    error(
        "selection",
        "exits in its init container",
        "a label or default that names no configuration leaves the node without GPUs",
    ),
    warning(
        "no-default",
        "starts with its defaults under the GPU operator, even if a configuration is called `default`",
        "it looks as if that one were taken",
    ),
    warning("newer-plugin", "unknown", "its verdicts were not compared with the plugin's own code"),
];

impl ConfigRule {
    /// All of them.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// The rule's row.
    pub fn about(self) -> &'static RuleText {
        &TEXTS[self as usize]
    }

    /// A finding of this rule, as bad as its row says.
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

/// What a rule found.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigFinding {
    /// The rule.
    pub rule: ConfigRule,
    /// Place, reason, what to do.
    pub diagnostic: Diagnostic,
}

impl ConfigFinding {
    /// Says where.
    #[must_use]
    pub fn at(self, origin: SourceSpan) -> Self {
        self.with(|diagnostic| diagnostic.at(origin))
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|diagnostic| diagnostic.hint(hint))
    }

    /// Adds what to do, if there is something.
    #[must_use]
    pub fn maybe_hint(self, hint: Option<String>) -> Self {
        self.with(|diagnostic| diagnostic.maybe_hint(hint))
    }

    /// Adds another place.
    #[must_use]
    pub fn related(self, origin: SourceSpan, label: &str) -> Self {
        self.with(|diagnostic| diagnostic.related(origin, label))
    }

    /// Says what the marked text is.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        self.with(|diagnostic| diagnostic.label(label))
    }

    /// Adds itself to `findings`.
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
