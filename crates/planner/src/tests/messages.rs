//! Everything that the planner says, once: what other tests would have to quote is reviewed here,
//! as one catalog. How a run ends apart from that is the hook's (`hook/run_end.rs`).

use std::collections::BTreeMap;
use std::fmt::Debug;

use jiff::Timestamp;
use strum::{EnumCount, IntoEnumIterator};

use contract::driver::Driver;

use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::start_limits::RefusalVariant;
use crate::note::{DecisionNote, NoteKind};
use crate::progress::NoEta;
use crate::reason::upgrade::UpgradingKind;
use crate::reason::{Reason, ReasonKind};
use nvidia_upgrade::explain::{ControllerWait, WaitKind};
use nvidia_upgrade::pass::PassErrorKind;
use nvidia_upgrade::snapshot::BuildErrorKind;

mod controller;
mod notes;
mod reasons;
mod upgrades;

/// The time of starts in the samples: 2023-11-14T22:13:20Z and a fraction of a second, as from a
/// clock. Messages show seconds.
const AT: Timestamp = Timestamp::constant(1_700_000_000, 123_456_789);

/// The time of ends in the samples: two minutes after [`AT`], a tick of NVIDIA's controller.
const LATER: Timestamp = Timestamp::constant(1_700_000_120, 987_654_321);

/// Reasons of an upgrade of ours, as a run has them.
fn upgrading() -> Vec<Reason> {
    upgrades::upgrading().into_iter().map(Reason::Upgrading).collect()
}

/// Why there is no estimate of the end.
fn no_etas() -> [NoEta; NoEta::COUNT] {
    let node = || "gpu-2".to_owned();
    [
        NoEta::NoHookRunning,
        NoEta::FleetWaits { reason: "OperatorNotReady" },
        NoEta::NodeNotReady { node: node() },
        NoEta::NodeStuck { node: node(), reason: "PluginStale" },
        NoEta::NodeFails { node: node(), reason: "DriverNotReady" },
        NoEta::NodeLate { node: node() },
        NoEta::StartUnknown { node: node() },
        NoEta::NotStarted { node: node() },
        NoEta::StepsLeft { node: node() },
        NoEta::NoSlot { node: node() },
    ]
}

/// Kinds of an enum without a sample.
fn missing<K: IntoEnumIterator + PartialEq + Debug>(
    name: &str,
    samples: impl IntoIterator<Item = K>,
) -> Vec<String> {
    let found: Vec<K> = samples.into_iter().collect();
    K::iter().filter(|kind| !found.contains(kind)).map(|kind| format!("{name}::{kind:?}")).collect()
}

#[test]
fn every_reason_has_a_sample() {
    let missing = [
        missing("Reason", reasons::reasons().iter().chain(&upgrading()).map(ReasonKind::from)),
        missing("Upgrading", upgrades::upgrading().iter().map(UpgradingKind::from)),
        missing("Refusal", upgrades::refusals().iter().map(RefusalVariant::from)),
        missing("vendor::explain::Wait", controller::waits().iter().map(WaitKind::from)),
        missing("BuildError", controller::build_errors().iter().map(BuildErrorKind::from)),
        missing("PassError", controller::pass_errors().iter().map(PassErrorKind::from)),
        missing("DecisionNote", notes::notes().iter().map(NoteKind::from)),
    ];
    let missing = missing.concat();
    assert!(
        missing.is_empty(),
        "the catalog of messages has no sample of these:\n{}\n",
        missing.join("\n")
    );
}

/// Whether a text has a time with a fraction that only a program can have written.
fn has_long_fraction(text: &str) -> bool {
    text.split('.').skip(1).any(|rest| {
        let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() - after.len() >= 6 && after.starts_with('Z')
    })
}

/// `status` told people that the operator had not looked since 2023-11-14T22:13:20.123456789Z.
#[test]
fn no_message_shows_fractions_of_seconds() {
    assert!(
        has_long_fraction("since 22:13:20.123456789Z")
            && !has_long_fraction("driver-417.94.202412040832-0 since 22:13:20Z")
    );
    let shown = catalog();
    let shown: Vec<&str> = shown.lines().filter(|line| has_long_fraction(line)).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

/// One text of the catalog.
struct CatalogMessage {
    heading: String,
    text: String,
    remedies: Vec<String>,
}

impl CatalogMessage {
    fn new(heading: String, text: String) -> Self {
        Self { heading, text, remedies: Vec::new() }
    }

    fn of_reason(reason: &Reason) -> Self {
        let heading = format!(
            "{} ({}, {})",
            reason.name(),
            reason.exit_code().name(),
            class(reason.resolves_itself())
        );
        let advice = Driver::ALL.map(|driver| (driver.traits().name, reason.advice(driver)));
        let (_, first) = advice[0];
        let remedies = if advice.iter().all(|(_, advice)| *advice == first) {
            vec![remedy(first)]
        } else {
            advice.iter().map(|(driver, advice)| format!("{driver}: {advice}")).collect()
        };
        Self { heading, text: reason.to_string(), remedies }
    }

    fn of_wait(wait: &ControllerWait) -> Self {
        let heading = format!("{} ({})", wait.name(), class(wait.can_resolve()));
        Self { heading, text: wait.to_string(), remedies: vec![remedy(wait.advice())] }
    }

    fn of_note(note: &DecisionNote) -> Self {
        Self::new(note.name().to_owned(), note.to_string())
    }

    fn of_cause(cause: FailureCause) -> Self {
        let then = if cause.is_before_restart() {
            "the node is released"
        } else {
            "the node keeps its cordon"
        };
        Self::new(format!("{} ({then})", cause.name()), cause.to_string())
    }
}

fn class(resolves_itself: bool) -> &'static str {
    if resolves_itself { "may resolve by itself" } else { "needs manual action" }
}

fn remedy(advice: &str) -> String {
    format!("remedy: {advice}")
}

/// A section: one entry for all texts with the same heading and the same remedies.
fn section(title: &str, messages: impl IntoIterator<Item = CatalogMessage>) -> String {
    let mut entries: BTreeMap<(String, Vec<String>), Vec<String>> = BTreeMap::new();
    for CatalogMessage { heading, text, remedies } in messages {
        entries.entry((heading, remedies)).or_default().push(text);
    }
    let entries = entries.into_iter();
    let entries = entries.map(|((heading, remedies), texts)| {
        format!("### {heading}\n{}\n", [texts, remedies].concat().join("\n"))
    });
    let entries: Vec<String> = entries.collect();
    format!("## {title}\n\n{}", entries.join("\n"))
}

fn catalog() -> String {
    let plain = |kind: &dyn Debug, text: String| CatalogMessage::new(format!("{kind:?}"), text);
    let sections = [
        section("Reason", reasons::reasons().iter().map(CatalogMessage::of_reason)),
        section("Reason::Upgrading", upgrading().iter().map(CatalogMessage::of_reason)),
        section("Cause of a failed upgrade", FailureCause::ALL.map(CatalogMessage::of_cause)),
        section(
            "Wait for NVIDIA's controller",
            controller::waits().iter().map(CatalogMessage::of_wait),
        ),
        section(
            "BuildError",
            controller::build_errors()
                .iter()
                .map(|error| plain(&BuildErrorKind::from(error), error.to_string())),
        ),
        section(
            "PassError",
            controller::pass_errors()
                .iter()
                .map(|error| plain(&PassErrorKind::from(error), error.to_string())),
        ),
        section("DecisionNote", notes::notes().iter().map(CatalogMessage::of_note)),
        section(
            "NoEta",
            no_etas()
                .iter()
                .map(|no_eta| CatalogMessage::new(no_eta.name().to_owned(), no_eta.to_string())),
        ),
    ];
    sections.join("\n")
}

#[test]
fn message_catalog_is_as_reviewed() {
    insta::assert_snapshot!(catalog());
}
