//! The messages of the waits.

use std::fmt;

use jiff::Timestamp;

use contract::count::with_noun;

use super::super::predict::PredictedStep;
use super::super::state::ExplainedState;
use super::{ControllerWait, HolderCause, SlotHolder};

/// Maximum number of names in a message.
const NAMED: usize = 5;

impl fmt::Display for ControllerWait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => write!(out, "automatic upgrades are off"),
            Self::SandboxWorkloads => write!(
                out,
                "NVIDIA's controller does not upgrade drivers while sandboxWorkloads.enabled is true"
            ),
            Self::Blocked { error } => {
                write!(out, "NVIDIA's controller cannot upgrade any node: {error}")
            }
            Self::PassEnds { error } => {
                write!(out, "NVIDIA's controller stops before it reaches the node: {error}")
            }
            // It is unknown when the controller last checked the nodes.
            Self::Asleep { step, since: None, .. } => {
                write!(out, "when NVIDIA's controller next checks the nodes, {step}")
            }
            Self::Asleep { step, since: Some(since), until } => {
                write!(
                    out,
                    "NVIDIA's controller has not checked the nodes since {since:.0}; when it does{}, {step}",
                    OptionalTime(" (by ", until, " at the latest)")
                )
            }
            Self::Skipped { label } => write!(out, "the node has the label {label}=true"),
            Self::Parallel { limit, holders, ahead } => {
                write!(
                    out,
                    "{} (maxParallelUpgrades is {limit}, {} in use){}{}",
                    if ahead.is_empty() {
                        "no slot is free"
                    } else {
                        "other nodes get the free slots first"
                    },
                    holders.len(),
                    HolderNames(holders),
                    NextNodes(ahead)
                )
            }
            Self::Unavailable { limit, written, total, counted, holders, ahead } => {
                let count = if *counted == 1 { "node counts" } else { "nodes count" };
                write!(
                    out,
                    "{counted} {count} as unavailable, and maxUnavailable allows {limit} ({written} of {total}){}{}",
                    HolderNames(holders),
                    NextNodes(ahead)
                )
            }
            Self::Jobs { count, since, until } => {
                let run = if *count == 1 { "job pod is running" } else { "job pods are running" };
                write!(
                    out,
                    "{count} {run}{}{}",
                    OptionalTime("; NVIDIA's controller has been waiting since ", since, ""),
                    OptionalTime(", and continues the upgrade after ", until, "")
                )
            }
            Self::Evicting { timeout_seconds, drain } => {
                let then = if *drain { "it drains the node" } else { "the upgrade fails" };
                write!(
                    out,
                    "NVIDIA's controller is evicting pods that use the device{}",
                    AfterTimeout(*timeout_seconds, then)
                )
            }
            Self::Draining { timeout_seconds } => {
                write!(
                    out,
                    "NVIDIA's controller is draining the node{}",
                    AfterTimeout(*timeout_seconds, "the upgrade fails")
                )
            }
            Self::Maintenance { found: Some(found) } => {
                write!(out, "the node's NodeMaintenance is {found}")
            }
            Self::Maintenance { found: None } => {
                write!(
                    out,
                    "the maintenance-operator has not handled the node's NodeMaintenance yet"
                )
            }
            Self::MaintenanceOff => {
                write!(
                    out,
                    "the node was handed to the maintenance-operator, but requestor mode is off"
                )
            }
            Self::Terminating { pod } => write!(out, "the old driver pod/{pod} is terminating"),
            Self::DriverStarting { pod, trouble, restarts } => {
                write!(out, "driver pod/{pod} is not ready{}", OptionalText(" (", trouble, ")"))?;
                if *restarts > 0 {
                    write!(out, ", {}", with_noun(*restarts, "restart"))
                } else {
                    Ok(())
                }
            }
            Self::NoValidator => write!(out, "there is no validator pod on the node"),
            Self::Validating { pod, until } => {
                write!(
                    out,
                    "validator pod/{pod} is not ready{}",
                    OptionalTime("; after ", until, ", the upgrade fails")
                )
            }
            Self::FailedBefore => {
                write!(out, "the upgrade failed, and the driver pod has an older revision")
            }
            Self::FailedDriver { pod, trouble } => {
                write!(
                    out,
                    "the upgrade failed; driver pod/{pod} is not ready{}",
                    OptionalText(" (", trouble, ")")
                )
            }
            Self::UnknownState { label } => {
                write!(out, "NVIDIA's controller does not know the state `{label}`")
            }
        }
    }
}

impl fmt::Display for PredictedStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::To(state) => {
                write!(out, "the node enters state {}", ExplainedState(state.label()))
            }
            Self::DeletePod => write!(out, "it deletes the node's driver pod"),
            Self::Evict => write!(out, "it evicts the pods that use the device"),
            Self::Drain => write!(out, "it drains the node"),
            Self::Load => write!(out, "it allows the node's driver to load"),
        }
    }
}

/// An optional value with a text before and after it; empty without the value.
pub struct OptionalText<'a, T>(pub &'static str, pub &'a Option<T>, pub &'static str);

impl<T: fmt::Display> fmt::Display for OptionalText<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(before, value, after) = self;
        value.as_ref().map_or(Ok(()), |value| write!(out, "{before}{value}{after}"))
    }
}

/// `; after 300 s, …`; without a timeout, `, without a time limit`.
struct AfterTimeout(u64, &'static str);

impl fmt::Display for AfterTimeout {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds, then) = self;
        if *seconds == 0 {
            out.write_str(", without a time limit")
        } else {
            write!(out, "; if this takes longer than {seconds} s, {then}")
        }
    }
}

/// An optional time, to the second, with a text before and after it.
struct OptionalTime<'a>(&'static str, &'a Option<Timestamp>, &'static str);

impl fmt::Display for OptionalTime<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(before, at, after) = self;
        at.map_or(Ok(()), |at| write!(out, "{before}{at:.0}{after}"))
    }
}

/// `: gpu-1 (failed, keeps its slot), gpu-2 (cordoned) and 3 others`
struct HolderNames<'a>(&'a [SlotHolder]);

impl fmt::Display for HolderNames<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, holder) in self.0.iter().take(NAMED).enumerate() {
            write!(out, "{}{}", if at == 0 { ": " } else { ", " }, holder.node)?;
            let words = holder_words(holder);
            if !words.is_empty() {
                write!(out, " ({})", words.join(", "))?;
            }
        }
        others(out, self.0.len())
    }
}

/// Returns why the node counts against the limit.
fn holder_words(holder: &SlotHolder) -> Vec<&'static str> {
    match holder.cause {
        HolderCause::InProgress => vec!["in progress"],
        HolderCause::Failed => vec!["failed, keeps its slot"],
        HolderCause::Unavailable { cordoned, not_ready } => {
            let (cordoned, not_ready) =
                (cordoned.then_some("cordoned"), not_ready.then_some("NotReady"));
            cordoned.into_iter().chain(not_ready).collect()
        }
    }
}

/// `; upgraded next: gpu-1, gpu-2`
struct NextNodes<'a>(&'a [String]);

impl fmt::Display for NextNodes<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.0.iter().take(NAMED).enumerate() {
            write!(out, "{}{node}", if at == 0 { "; upgraded next: " } else { ", " })?;
        }
        others(out, self.0.len())
    }
}

fn others(out: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count.saturating_sub(NAMED) {
        0 => Ok(()),
        1 => write!(out, " and 1 other"),
        more => write!(out, " and {more} others"),
    }
}
