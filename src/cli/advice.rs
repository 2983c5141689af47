//! Remedies as text: advice, and indented commands to copy.

use std::fmt::Write;

use super::table::push_wrapped;
use ops::advice::{Advice, Urgency, fleet_advice};
use ops::remedy::Remedy;
use ops::status::{Attention, BlockingCondition, RolloutStatus};
use planner::pods::listed;

/// At most this many different remedies are printed for a fleet. `why` prints all remedies of a
/// node.
const MOST: usize = 8;

/// Returns the remedies for a fleet, the most urgent first.
pub(super) fn fleet_text(status: &RolloutStatus, width: usize) -> String {
    let all = fleet_advice(status);
    if all.is_empty() {
        return String::new();
    }
    let is_optional = all.iter().all(|advice| advice.urgency == Urgency::Optional);
    let is_done = status.headline().attention == Attention::Done;
    let title = match (is_optional, is_done) {
        (true, true) => "To change that",
        (true, false) => "If it does not resolve itself",
        (false, _) => "What to do",
    };
    let mut text = format!("\n{title}:\n");
    let is_broken =
        |advice: &&Advice<'_>| matches!(advice.urgency, Urgency::Failed | Urgency::Stuck);
    let broken = all.iter().find(is_broken).and_then(|advice| advice.nodes.first());
    for advice in all.iter().take(MOST) {
        let (first, others) = match advice.nodes.split_first() {
            None => ("the fleet", String::new()),
            Some((first, [])) => (*first, String::new()),
            Some((first, more)) => {
                let more: Vec<String> = more.iter().map(|node| (*node).to_owned()).collect();
                (*first, format!(" (the same for {})", listed(&more)))
            }
        };
        for obstacle in &advice.obstacles {
            push_wrapped(&mut text, ("  ", "    "), &format!("{first}: {obstacle}"), width);
        }
        let later: Vec<&String> = advice.remedies.iter().flat_map(|remedy| &remedy.later).collect();
        let condition = match broken {
            Some(node) if advice.urgency == Urgency::Paused => {
                format!(
                    "keep the pause until {node} is repaired, or another driver is deployed; then "
                )
            }
            _ => String::new(),
        };
        for remedy in &advice.remedies {
            push_remedy(&mut text, &format!("{first}{others}: {condition}"), remedy, width);
        }
        push_later(&mut text, &later);
    }
    if all.len() > MOST {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  … and {} more", all.len() - MOST);
    }
    text.push_str("  More about one node: gpu-rollout why NODE\n");
    text
}

/// Returns the remedies for one blocking condition.
pub(super) fn wait_text(waiting: &BlockingCondition, width: usize) -> String {
    let mut text = String::new();
    for obstacle in &waiting.obstacles {
        push_wrapped(&mut text, ("  blocked by: ", "    "), &obstacle.text, width);
        push_remedy(&mut text, "hint: ", &obstacle.remedy, width);
    }
    for remedy in waiting.remedies().into_iter().skip(waiting.obstacles.len()) {
        push_remedy(&mut text, "hint: ", remedy, width);
    }
    let later: Vec<&String> = waiting
        .obstacles
        .iter()
        .map(|obstacle| &obstacle.remedy)
        .chain([&waiting.remedy])
        .flat_map(|remedy| &remedy.later)
        .collect();
    push_later(&mut text, &later);
    text
}

/// Appends the commands to run after the node is done.
fn push_later(text: &mut String, commands: &[&String]) {
    if !commands.is_empty() {
        text.push_str("  when the node is done:\n");
    }
    for command in commands {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "      {command}");
    }
}

/// Appends a remedy, with its commands indented.
pub(super) fn push_remedy(text: &mut String, lead: &str, remedy: &Remedy, width: usize) {
    push_wrapped(text, ("  ", "    "), &format!("{lead}{}", remedy.text), width);
    for command in remedy.inspect.iter().chain(&remedy.run) {
        // Never wrapped, so that it can be copied.
        let _ = writeln!(text, "      {command}");
    }
}
