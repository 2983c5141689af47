//! What the commands that read a cluster have in common: which cluster, how long, and what is printed when it cannot be read.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::printer::Printer;
use contract::duration::Duration;
use contract::exit::ExitCode;
use hook::RunClock;
use kube_io::client::{Client, ClientError, ClusterLocation, connect_to};
use kube_io::server_time::server_time;
use ops::command_error::CommandError;
use ops::find_rollouts::find_rollouts;
use ops::session::ClusterSession;

/// Which cluster, as with kubectl.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterOptions {
    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod that this runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Look only at hook releases and operators in this namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// How long the cluster may take to be read
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    timeout: Duration,
}

impl ClusterOptions {
    /// Returns the only namespace that is searched.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// Runs a command on the rollouts of the cluster; prints why where there is none, or it cannot be read.
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
            &format!("{address}: no hook release of gpu-rollout, no GPU operator and no network operator{place}"),
            Some("see which cluster this is: kubectl config current-context; --context names another one"),
        );
        Ok(ExitCode::OperatorMissing)
    })
}

/// The same, also where there is no rollout.
pub(super) fn run_anywhere(
    options: &ClusterOptions,
    printer: &mut Printer,
    command: impl AsyncFnOnce(ClusterSession, &mut Printer) -> Result<ExitCode, CommandError>,
) -> ExitCode {
    run_with_address(options, printer, async |session, _, printer| command(session, printer).await)
}

/// Prints what is worth knowing about the search for rollouts.
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
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            printer.error(&format!("unable to start: {error}"), None);
            return ExitCode::Internal;
        }
    };
    runtime.block_on(async {
        let place = ClusterLocation {
            kubeconfig: options.kubeconfig.clone(),
            context: options.context.clone(),
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

/// A clock that shows the API server's time: that of a workstation may be wrong, and what is printed are ages of objects.
async fn server_clock(client: &Client) -> RunClock {
    let clock = RunClock::system();
    let asked = clock.elapsed();
    match server_time(client).await {
        Ok(Some(at)) => clock.set_by_server(at, asked),
        // Ages may be wrong then; nothing is decided by them.
        Ok(None) => tracing::debug!("the API server's time is unknown"),
        Err(error) => tracing::debug!(%error, "the API server's time is unknown"),
    }
    clock
}

fn print_no_client(error: &ClientError, printer: &mut Printer) -> ExitCode {
    printer
        .error(&error.with_causes(), Some("name a kubeconfig with --kubeconfig or KUBECONFIG, and a context that is in it with --context"));
    ExitCode::Input
}
