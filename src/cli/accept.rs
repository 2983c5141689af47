//! `gpu-rollout accept`.

use std::collections::BTreeSet;
use std::fmt::Write;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::acceptance_result::duration;
use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use super::format::OutputFormat;
use super::{table, terminal};
use crate::printer::Printer;
use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::exit::ExitCode;
use diagnostics::nearest::nearest;
use kube_io::list::list_workloads;
use ops::acceptance::{
    HandTest, HandTestNode, HandTestResult, UnknownTest, UntestableNode, find_tests, run_tests,
    select_tests, testable,
};
use ops::command_error::CommandError;
use ops::observe::RolloutSnapshot;
use ops::session::ClusterSession;
use planner::pods::listed;

/// Arguments of `gpu-rollout accept`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout accept gpu-3
  gpu-rollout accept gpu-3 gpu-7 --test dcgm --yes
  gpu-rollout accept gpu-3 --yes -o json | jq -r '.results[] | [.node, .test, .verdict] | @tsv'")]
pub struct AcceptArguments {
    /// Names of the nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Run this test; repeat the option for several tests [default: every deployed test]
    #[arg(long = "test", value_name = "NAME")]
    tests: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The `-o json` document.
#[derive(Serialize, JsonSchema)]
pub(super) struct AcceptDocument<'a> {
    /// The results, by node, in the order of the tests.
    results: &'a [HandTestResult],
}

impl AcceptArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { mut nodes, tests, output, consent, cluster } = self;
        nodes.sort_unstable();
        nodes.dedup();
        cluster::run(&cluster, printer, async |session, printer| {
            cluster::print_notes(&session, printer);
            let followed =
                session.follow_drivers(|settings| settings.driver == Driver::Gpu).await?;
            let chosen = match choose_tests(&session, &followed.snapshots, &tests, printer).await? {
                Ok(chosen) => chosen,
                Err(code) => return Ok(code),
            };
            let chosen_nodes =
                match choose_nodes(&session, &followed.snapshots, &nodes, printer).await? {
                    Ok(chosen) => chosen,
                    Err(code) => return Ok(code),
                };
            let names: Vec<String> = chosen.iter().map(|test| test.name.clone()).collect();
            printer.note(&format!(
                "on {}, one after the other: {}",
                listed(&nodes),
                names.join(", ")
            ));
            if let Err(code) = consent.given(printer) {
                return Ok(code);
            }
            Ok(run(&session, &chosen_nodes, &chosen, output, printer).await)
        })
    }
}

/// Returns the deployed tests with these names; without names, all.
async fn choose_tests(
    session: &ClusterSession,
    snapshots: &[RolloutSnapshot],
    names: &[String],
    printer: &mut Printer,
) -> Result<Result<Vec<HandTest>, ExitCode>, CommandError> {
    let all = find_tests(session.client(), snapshots).await?;
    if all.is_empty() {
        printer.error(
            &format!("no acceptance tests are deployed: namespace {ACCEPTANCE_NAMESPACE} has no PodTemplates"),
            Some("add `rollout.acceptance` to the recipe, and deploy the bundle"),
        );
        return Ok(Err(ExitCode::Input));
    }
    Ok(select_tests(all, names).map_err(|UnknownTest { name, deployed }| {
        let hint = match nearest(&name, deployed.iter().map(String::as_str)) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("deployed tests: {}", deployed.join(", ")),
        };
        printer.error(&format!("--test: no test `{name}` is deployed"), Some(hint.as_str()));
        ExitCode::Input
    }))
}

/// Returns the nodes, if tests can run on all of them.
async fn choose_nodes(
    session: &ClusterSession,
    snapshots: &[RolloutSnapshot],
    names: &[String],
    printer: &mut Printer,
) -> Result<Result<Vec<HandTestNode>, ExitCode>, CommandError> {
    let wanted: BTreeSet<String> = names.iter().cloned().collect();
    let pods = list_workloads(session.client(), &wanted, Some).await?;
    let mut chosen = Vec::new();
    for name in names {
        match testable(snapshots, name, &pods) {
            Ok(node) => chosen.push(node),
            Err(reason) => {
                let known = snapshots.iter().flat_map(|snapshot| snapshot.observed.nodes.keys());
                let similar = nearest(name, known.map(|name| &**name))
                    .filter(|_| reason == UntestableNode::Unknown)
                    .map(|name| format!("did you mean `{name}`?"));
                printer.error(
                    &format!("cannot test node `{name}`: {reason}; no test was started"),
                    similar.as_deref().or(Some(reason.hint())),
                );
                return Ok(Err(ExitCode::Input));
            }
        }
    }
    Ok(Ok(chosen))
}

/// Runs the tests and prints their results.
async fn run(
    session: &ClusterSession,
    nodes: &[HandTestNode],
    tests: &[HandTest],
    output: OutputFormat,
    printer: &mut Printer,
) -> ExitCode {
    let attempt = format!("hand-{}", session.now().as_nanosecond());
    let client = session.client();
    let outcome =
        run_tests(client, nodes, tests, &attempt, interrupted(), |step| printer.note(step)).await;
    let (results, left) = (&outcome.results, &outcome.left);
    let shown = match output {
        OutputFormat::Json => printer.json(&AcceptDocument { results }),
        OutputFormat::Text => {
            printer.data(&results_text(results, terminal::width()));
            ExitCode::Success
        }
    };
    if !left.is_empty() {
        let hint = format!("kubectl -n {ACCEPTANCE_NAMESPACE} delete pods {}", left.join(" "));
        printer.error(
            &format!("cannot delete {}: {}", with_noun(left.len(), "pod"), listed(left)),
            Some(hint.as_str()),
        );
    }
    if let Some(error) = &outcome.error {
        printer.error(&error.with_causes(), Some(error.hint()));
    }
    let code = outcome.exit_code();
    if code == ExitCode::Success { shown } else { code }
}

/// Waits until the user interrupts the command. If signals cannot be handled, Ctrl-C ends the
/// process, and the kubelet ends the pods.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Formats the results as a table, and the logs of failed tests.
fn results_text(results: &[HandTestResult], width: Option<usize>) -> String {
    let row = |result: &HandTestResult| {
        vec![
            result.node.clone(),
            result.test.clone(),
            result.verdict.name().to_owned(),
            duration(result.seconds),
            result.message.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = results.iter().map(row).collect();
    let mut text = table::table(&["NODE", "TEST", "VERDICT", "TOOK", "MESSAGE"], &rows, width);
    for result in results.iter().filter(|result| !result.log.is_empty()) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\nlog of test {} on {}:", result.test, result.node);
        for line in result.log.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use contract::record::acceptance::AcceptanceVerdict;

    use super::*;

    #[test]
    fn results_have_verdict_message_and_log() {
        let result = |node: &str, verdict, message: &str, log: &str| HandTestResult {
            node: node.to_owned(),
            test: "dcgm".to_owned(),
            verdict,
            message: message.to_owned(),
            log: log.to_owned(),
            seconds: 60,
        };
        let results = [
            result("gpu-0", AcceptanceVerdict::Passed, "", ""),
            result("gpu-1", AcceptanceVerdict::Failed, "test: exit code 1", "bad\n"),
        ];
        let text = results_text(&results, None);
        assert!(text.contains("gpu-0  dcgm  passed"), "{text}");
        assert!(text.contains("test: exit code 1\n"), "{text}");
        assert!(text.ends_with("\nlog of test dcgm on gpu-1:\n  bad\n"), "{text}");
    }
}
