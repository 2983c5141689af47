//! What to do, for people: words, and commands to copy, indented so that they stand out.

use std::fmt::Write;

use super::table::push_wrapped;
use ops::remedy::Remedy;
use ops::status::{BlockingCondition, RolloutStatus};

/// So many different things are told of a fleet; `why` tells all of a node.
const MOST: usize = 8;

/// One thing to do.
#[derive(Debug)]
struct Advice<'a> {
    /// About these nodes; none: about the fleet.
    nodes: Vec<&'a str>,
    /// What is in the way.
    about: Vec<&'a str>,
    remedies: Vec<&'a Remedy>,
}

/// What to do about everything in a fleet that does not end by itself: each thing once, with the nodes that it is about.
pub(super) fn of_fleet(status: &RolloutStatus, width: usize) -> String {
    let mut all: Vec<Advice<'_>> = Vec::new();
    let of_nodes = status.nodes.iter().filter_map(|row| Some((Some(row.node.as_str()), row.waiting.as_ref()?)));
    for (node, waiting) in status.fleet.iter().map(|waiting| (None, waiting)).chain(of_nodes) {
        if waiting.resolves_itself && waiting.obstacles.is_empty() {
            continue;
        }
        let remedies = remedies(waiting);
        let texts = |remedies: &[&Remedy]| remedies.iter().map(|remedy| remedy.text.clone()).collect::<Vec<_>>();
        match all.iter_mut().find(|known| texts(&known.remedies) == texts(&remedies)) {
            Some(known) => known.nodes.extend(node),
            None => all.push(Advice { nodes: node.into_iter().collect(), about: about(waiting), remedies }),
        }
    }
    if all.is_empty() {
        return String::new();
    }
    let mut text = "\nWhat to do:\n".to_owned();
    for advice in all.iter().take(MOST) {
        let (first, more) = (advice.nodes.first().copied().unwrap_or("the fleet"), advice.nodes.len().saturating_sub(1));
        let others = if more > 0 { format!(" (and the same for {more} more nodes)") } else { String::new() };
        for obstacle in &advice.about {
            push_wrapped(&mut text, ("  ", "    "), &format!("{first}: {obstacle}"), width);
        }
        let later: Vec<&String> = advice.remedies.iter().flat_map(|remedy| &remedy.later).collect();
        for remedy in &advice.remedies {
            push_remedy(&mut text, &format!("{first}{others}: "), remedy, width);
        }
        afterwards(&mut text, &later);
    }
    if all.len() > MOST {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  … and {} more", all.len() - MOST);
    }
    text.push_str("  More of one node: gpu-rollout why NODE\n");
    text
}

/// What to do about one wait.
pub(super) fn of_wait(waiting: &BlockingCondition, width: usize) -> String {
    let mut text = String::new();
    for obstacle in &waiting.obstacles {
        push_wrapped(&mut text, ("  in the way: ", "    "), &obstacle.text, width);
        push_remedy(&mut text, "what to do: ", &obstacle.remedy, width);
    }
    for remedy in remedies(waiting).into_iter().skip(waiting.obstacles.len()) {
        push_remedy(&mut text, "what to do: ", remedy, width);
    }
    let later: Vec<&String> =
        waiting.obstacles.iter().map(|obstacle| &obstacle.remedy).chain([&waiting.remedy]).flat_map(|remedy| &remedy.later).collect();
    afterwards(&mut text, &later);
    text
}

/// Pods that are in the way come first: what is said of the node is to be done behind that. A node that goes on by itself then needs nothing else.
fn remedies(waiting: &BlockingCondition) -> Vec<&Remedy> {
    let of_node = (!waiting.resolves_itself || waiting.obstacles.is_empty()).then_some(&waiting.remedy);
    waiting.obstacles.iter().map(|obstacle| &obstacle.remedy).chain(of_node).collect()
}

/// What is to be done when the node is done.
fn afterwards(text: &mut String, commands: &[&String]) {
    if !commands.is_empty() {
        text.push_str("  when the node is done:\n");
    }
    for command in commands {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "      {command}");
    }
}

fn about(waiting: &BlockingCondition) -> Vec<&str> {
    waiting.obstacles.iter().map(|obstacle| obstacle.text.as_str()).collect()
}

pub(super) fn push_remedy(text: &mut String, lead: &str, remedy: &Remedy, width: usize) {
    push_wrapped(text, ("  ", "    "), &format!("{lead}{}", remedy.text), width);
    for command in remedy.look.iter().chain(&remedy.run) {
        // Never wrapped: it is there to be copied.
        let _ = writeln!(text, "      {command}");
    }
}
