//! What the commands that read a cluster share: the options that select it, the connection, and the
//! errors when it cannot be read.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::runtime;
use crate::printer::Printer;
use contract::duration::Duration;
use contract::exit::ExitCode;
use hook::RunClock;
use kube_io::client::{Client, ClientError, ClusterLocation, connect_to};
use kube_io::server_time::server_time;
use ops::command_error::CommandError;
use ops::find_rollouts::find_rollouts;
use ops::session::ClusterSession;

/// Options that select the cluster, as with kubectl.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterOptions {
    /// Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, or, inside a pod, the pod's
    /// ServiceAccount]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Search only this namespace for hook releases and operators [default: all namespaces]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Time limit for reading a rollout from the cluster, such as `90s` or `5m`; when it is
    /// exceeded, the command fails
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    timeout: Duration,
}

impl ClusterOptions {
    /// Returns the namespace to which the search is limited, if any.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// Runs a command on the rollouts of the cluster. Prints an error if there is no rollout, or if the
/// cluster cannot be read.
pub(super) fn run(
    options: &ClusterOptions,
    printer: &mut Printer,
    command: impl AsyncFnOnce(ClusterSession, &mut Printer) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    run_with_address(options, printer, async |session, address, printer| {
        if !session.targets().is_empty() {
            return command(session, printer).await;
        }
        print_notes(&session, printer);
        let place = options
            .namespace
            .as_ref()
            .map(|name| format!(" in namespace `{name}`"))
            .unwrap_or_default();
        printer.error(
            &format!("{address}: no hook release of gpu-rollout, no GPU Operator and no Network Operator{place}"),
            Some("check the cluster with `kubectl config current-context`, or select another one with --context"),
        );
        Ok(ExitCode::OperatorMissing)
    })
}

/// Like [`run`], but also runs the command if there is no rollout.
pub(super) fn run_anywhere(
    options: &ClusterOptions,
    printer: &mut Printer,
    command: impl AsyncFnOnce(ClusterSession, &mut Printer) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    run_with_address(options, printer, async |session, _, printer| command(session, printer).await)
}

/// Prints the notes of the search for rollouts.
pub(super) fn print_notes(session: &ClusterSession, printer: &mut Printer) {
    for note in session.notes() {
        printer.note(&format!("note: {note}"));
    }
}

fn run_with_address(
    options: &ClusterOptions,
    printer: &mut Printer,
    command: impl AsyncFnOnce(ClusterSession, &str, &mut Printer) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    runtime::run(printer, async |printer| {
        let place = ClusterLocation {
            kubeconfig: options.kubeconfig.clone(),
            context: options.context.clone(),
            no_proxy: no_proxy(),
        };
        let (client, address) = match connect_to(&place).await {
            Ok(connected) => connected,
            Err(error) => return print_no_client(&error, printer),
        };
        let ended = match find_rollouts(&client, options.namespace.as_deref()).await {
            Ok(rollouts) => {
                let limit = std::time::Duration::from_secs(options.timeout.as_secs());
                let clock = server_clock(&client).await;
                let session =
                    ClusterSession::new(client, rollouts, limit, Arc::new(move || clock.now()));
                command(session, &address, printer).await
            }
            Err(error) => Err(error.into()),
        };
        ended.unwrap_or_else(|error| {
            printer.error(&format!("{address}: {}", error.with_causes()), Some(error.hint()));
            error.exit_code()
        })
    })
}

/// Returns `NO_PROXY` of the environment. The name in capitals comes first, as with kubectl.
fn no_proxy() -> String {
    #[expect(clippy::disallowed_methods, reason = "the environment of the command is read here")]
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    variable("NO_PROXY").or_else(|| variable("no_proxy")).unwrap_or_default()
}

/// Returns a clock that shows the API server's time. A workstation's clock may be wrong, and the
/// output contains ages of objects.
async fn server_clock(client: &Client) -> RunClock {
    let clock = RunClock::system();
    let asked = clock.elapsed();
    match server_time(client).await {
        Ok(Some(at)) => clock.set_by_server(at, asked),
        // Ages may then be wrong, but no decision depends on them.
        Ok(None) => tracing::debug!("the API server's time is unknown"),
        Err(error) => tracing::debug!(%error, "the API server's time is unknown"),
    }
    clock
}

fn print_no_client(error: &ClientError, printer: &mut Printer) -> ExitCode {
    let hint = match error {
        ClientError::Proxy(_) => {
            "set HTTPS_PROXY, or `proxy-url` in the kubeconfig, to such an address, or exclude the API server with NO_PROXY"
        }
        ClientError::Config(_)
        | ClientError::UnreadableKubeconfig { .. }
        | ClientError::MissingContext { .. }
        | ClientError::Kubeconfig { .. }
        | ClientError::Client(_) => {
            "set --kubeconfig or KUBECONFIG to a kubeconfig, and --context to one of its contexts"
        }
    };
    printer.error(&error.with_causes(), Some(hint));
    ExitCode::Input
}
