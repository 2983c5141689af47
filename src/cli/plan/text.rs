//! A prediction as text: what changes, how long it takes, how many nodes and pods, in which order.

use std::fmt::Write;

use jiff::SignedDuration;

use crate::cli::preflight::push_finding;
use crate::cli::table::{counted, push_wrapped, table};
use crate::cli::terminal;
use contract::count::with_noun;
use ops::plan::{
    DriverChange, NodeStep, PlannedNamespace, PlannedNode, PlannedOrder, RolloutPlan,
    RolloutPrediction,
};
use ops::time::format_duration;

/// The maximum number of nodes that are named per wave.
const NAMED: usize = 8;
/// The maximum number of controllers that are named per namespace.
const CONTROLLERS: usize = 4;

/// Formats a prediction. `all`: with one line for every node and pod.
pub(super) fn rollout_text(rollout: &RolloutPrediction, all: bool, width: Option<usize>) -> String {
    let plan = &rollout.plan;
    let line = width.unwrap_or(terminal::LINE);
    let mut text = format!("{}\n", rollout.title);
    for summary in head(plan) {
        push_wrapped(&mut text, ("", "  "), &summary, line);
    }
    if !plan.namespaces.is_empty() {
        let rows: Vec<Vec<String>> = plan.namespaces.iter().map(namespace).collect();
        let _ = write!(text, "\n{}", table(&["NAMESPACE", "PODS", "LOST", "OF"], &rows, width));
    }
    text.push_str(&steps(plan, width));
    if all {
        text.push_str(&every(plan));
    } else if !plan.waves.is_empty() {
        let rows: Vec<Vec<String>> = plan
            .waves
            .iter()
            .enumerate()
            .map(|(number, wave)| {
                let more = wave.nodes.len().saturating_sub(NAMED);
                let named = wave.nodes[..wave.nodes.len().min(NAMED)].join(", ");
                let named = if more > 0 { format!("{named} and {more} more") } else { named };
                vec![
                    (number + 1).to_string(),
                    after(wave.start_after_seconds),
                    after(wave.end_after_seconds),
                    wave.nodes.len().to_string(),
                    named,
                ]
            })
            .collect();
        let which = if plan.order == PlannedOrder::Hook { "WHICH" } else { "FOR EXAMPLE" };
        let _ = write!(
            text,
            "\n{}",
            table(&["WAVE", "STARTS AFTER", "ENDS AFTER", "NODES", which], &rows, width)
        );
    }
    text.push_str(&unfinished(plan, line));
    text.push_str(&findings(rollout, line));
    for note in assumed(plan) {
        push_wrapped(&mut text, ("", "  "), &note, line);
    }
    text
}

/// Formats the table of the steps, if the rollout has steps.
fn steps(plan: &RolloutPlan, width: Option<usize>) -> String {
    if plan.steps.is_empty() {
        return String::new();
    }
    let rows = plan.steps.iter().enumerate().map(|(number, step)| {
        let more = step.canaries.len().saturating_sub(NAMED);
        let named = step.canaries[..step.canaries.len().min(NAMED)].join(", ");
        let named = if more > 0 { format!("{named} and {more} more") } else { named };
        let which =
            if named.is_empty() { step.step.clone() } else { format!("{}: {named}", step.step) };
        vec![
            (number + 1).to_string(),
            step.nodes.to_string(),
            step.end_after_seconds.map_or_else(|| "-".to_owned(), after),
            which,
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    format!("\n{}", table(&["STEP", "NODES", "ENDS AFTER", "WHICH"], &rows, width))
}

fn after(seconds: u64) -> String {
    format_duration(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

/// `1 pod leaves`, `3 pods leave`.
fn pods_leave(count: usize) -> String {
    if count == 1 { "1 pod leaves".to_owned() } else { format!("{count} pods leave") }
}

fn head(plan: &RolloutPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let of = |change: &DriverChange| match &change.nvidia_driver {
        Some(name) => format!("{} of NVIDIADriver {name}", change.of),
        None => change.of.to_owned(),
    };
    let changes: Vec<String> = plan
        .changes
        .iter()
        .map(|change| format!("{} {} → {}", of(change), change.from, change.to))
        .collect();
    lines.push(if changes.is_empty() {
        "changes: neither driver nor operator; outdated driver pods are replaced".to_owned()
    } else {
        format!("changes: {}", changes.join(", "))
    });
    let count = |step| plan.nodes.iter().filter(|node| node.step == step).count();
    let counts = [
        (count(NodeStep::Evicting), "with eviction of the pods that use the GPU"),
        (count(NodeStep::RestartOnly), "with a restart of only the driver pod"),
        (count(NodeStep::First), "without a driver so far"),
        (count(NodeStep::Unchanged), "unchanged"),
    ];
    lines.push(format!(
        "{}: {}; mode {}",
        with_noun(plan.total, "node"),
        counted(&counts),
        plan.mode
    ));
    let Some(range) = plan.duration else {
        lines.push("nothing to do".to_owned());
        return lines;
    };
    let budget = after(plan.budget_seconds);
    let enough =
        if range.most_seconds > plan.budget_seconds { ": THIS MAY NOT BE ENOUGH" } else { "" };
    lines.push(format!(
        "takes {} to {}, likely {}; the hook waits for up to {budget}{enough}",
        after(range.least_seconds),
        after(range.most_seconds),
        after(range.likely_seconds),
    ));
    lines.push(match plan.unavailable {
        1 => "at most one node is cordoned at a time".to_owned(),
        most => format!("at most {most} nodes are cordoned at a time"),
    });
    let lost = plan.pods.iter().filter(|pod| pod.lost).count();
    let unsure = plan.pods.iter().filter(|pod| !pod.certain).count();
    let mut leave = pods_leave(plan.pods.len());
    if lost > 0 {
        let _ = write!(leave, "; no controller recreates {lost} of them");
    }
    if unsure > 0 {
        let _ = write!(leave, "; {unsure} of them may end before their eviction");
    }
    lines.push(leave);
    lines
}

fn namespace(of: &PlannedNamespace) -> Vec<String> {
    let mut controllers: Vec<(&String, &usize)> = of.controllers.iter().collect();
    controllers.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let more = controllers.len().saturating_sub(CONTROLLERS);
    let mut named: Vec<String> = controllers
        .iter()
        .take(CONTROLLERS)
        .map(|(name, count)| format!("{name} ({count})"))
        .collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    let lost = if of.lost > 0 { of.lost.to_string() } else { "-".to_owned() };
    vec![of.namespace.clone(), of.pods.to_string(), lost, named.join(", ")]
}

fn step(node: &PlannedNode) -> &'static str {
    match node.step {
        NodeStep::Unchanged => "unchanged",
        NodeStep::First => "no driver yet",
        NodeStep::RestartOnly => "restart only",
        NodeStep::Evicting => "evicting",
    }
}

/// Formats a table of every node and a table of every pod.
fn every(plan: &RolloutPlan) -> String {
    let moment = |seconds: Option<u64>| seconds.map_or_else(|| "-".to_owned(), after);
    let nodes: Vec<Vec<String>> = plan
        .nodes
        .iter()
        .map(|node| {
            let pods = if node.pods > 0 { node.pods.to_string() } else { "-".to_owned() };
            vec![
                node.node.clone(),
                moment(node.start_after_seconds),
                moment(node.end_after_seconds),
                pods,
                step(node).to_owned(),
            ]
        })
        .collect();
    let mut text = format!(
        "\n{}",
        table(&["NODE", "STARTS AFTER", "ENDS AFTER", "PODS", "WHAT"], &nodes, None)
    );
    if !plan.pods.is_empty() {
        let pods: Vec<Vec<String>> = plan
            .pods
            .iter()
            .map(|pod| {
                let sure = match (pod.lost, pod.certain) {
                    (true, _) => "no controller recreates it",
                    (false, false) => "may end before its eviction",
                    (false, true) => "",
                };
                let controller = pod.controller.clone().unwrap_or_else(|| "-".to_owned());
                vec![
                    format!("{}/{}", pod.namespace, pod.name),
                    pod.node.clone(),
                    controller,
                    sure.to_owned(),
                ]
            })
            .collect();
        let _ = write!(text, "\n{}", table(&["POD THAT LEAVES", "NODE", "OF", ""], &pods, None));
    }
    text
}

/// Formats the nodes that do not finish.
fn unfinished(plan: &RolloutPlan, width: usize) -> String {
    let mut text = String::new();
    let stuck: Vec<(&PlannedNode, &String)> =
        plan.nodes.iter().filter_map(|node| Some((node, node.waiting.as_ref()?))).collect();
    if !stuck.is_empty() {
        let _ = writeln!(text, "\n{} will not finish:", with_noun(stuck.len(), "node"));
    }
    for (node, waiting) in stuck.iter().take(NAMED) {
        push_wrapped(&mut text, ("  ", "    "), &format!("{}: {waiting}", node.node), width);
    }
    if stuck.len() > NAMED {
        let _ = writeln!(text, "  … and {} more (-o wide, -o json)", stuck.len() - NAMED);
    }
    text
}

fn findings(rollout: &RolloutPrediction, width: usize) -> String {
    let mut text = String::from("\n");
    for finding in &rollout.findings {
        push_finding(&mut text, finding, width);
    }
    if !rollout.findings.is_empty() {
        text.push_str("  For what to do about each: gpu-rollout preflight\n");
    }
    text
}

fn assumed(plan: &RolloutPlan) -> Vec<String> {
    let mut lines = Vec::new();
    if plan.order == PlannedOrder::Controller && !plan.waves.is_empty() {
        lines.push(
            "assumed: the order of the nodes; NVIDIA's controller has no fixed order".to_owned(),
        );
    }
    if let Some(times) = plan.driver_times {
        lines.push(format!(
            "assumed: a driver takes {} to {} to start (as the {} driver pods that run now)",
            after(times.least_seconds),
            after(times.most_seconds),
            times.pods
        ));
    }
    for note in &plan.notes {
        lines.push(format!("note: {note}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use ops::plan::{PlannedStep, PlannedWave};

    use super::*;

    fn prediction(order: PlannedOrder) -> RolloutPrediction {
        let wave = PlannedWave {
            start_after_seconds: 0,
            end_after_seconds: 90,
            nodes: vec!["gpu-0".to_owned(), "gpu-1".to_owned()],
        };
        let plan = RolloutPlan {
            mode: "assist",
            order,
            changes: Vec::new(),
            total: 2,
            nodes: Vec::new(),
            waves: vec![wave],
            steps: Vec::new(),
            pods: Vec::new(),
            namespaces: Vec::new(),
            duration: None,
            budget_seconds: 3_600,
            unavailable: 2,
            driver_times: None,
            job_seconds: [0, 0],
            runs: 1,
            notes: Vec::new(),
        };
        RolloutPrediction { title: String::new(), plan, can_start: true, findings: Vec::new() }
    }

    #[test]
    fn steps_are_listed_with_their_canaries() {
        let step = |step: &str, nodes, canaries: &[&str], end| PlannedStep {
            step: step.to_owned(),
            nodes,
            canaries: canaries.iter().map(|name| (*name).to_owned()).collect(),
            end_after_seconds: end,
        };
        let mut prediction = prediction(PlannedOrder::Hook);
        prediction.plan.steps = vec![
            step("canaries", 2, &["gpu-1", "gpu-7"], Some(60)),
            step("all other nodes", 14, &[], None),
        ];
        let text = rollout_text(&prediction, false, Some(100));
        assert!(text.contains("canaries: gpu-1, gpu-7\n"), "{text}");
        assert!(text.contains("2     14     -           all other nodes\n"), "{text}");
    }

    /// Regression (P12): the order in which NVIDIA's controller would upgrade the nodes looked
    /// certain.
    #[test]
    fn order_of_nvidias_controller_is_only_an_example() {
        let text = |order| rollout_text(&prediction(order), false, Some(100));
        let controller = text(PlannedOrder::Controller);
        assert!(controller.contains("FOR EXAMPLE"), "{controller}");
        assert!(controller.contains("NVIDIA's controller has no fixed order"), "{controller}");
        let hook = text(PlannedOrder::Hook);
        assert!(hook.contains("WHICH") && !hook.contains("no fixed order"), "{hook}");
    }
}
