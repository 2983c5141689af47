//! What the commands that read a cluster have in common: which cluster, how long, and what is said when it cannot be read.

use std::path::PathBuf;

use clap::Args;

use crate::printer::Printer;
use contract::duration::Duration;
use contract::exit::ExitCode;
use contract::preflight::PreflightSettings;
use contract::settings::Settings;
use contract::task::Task;
use hook::RunClock;
use kube_io::call::CallError;
use kube_io::client::{Client, ClientError, ClusterLocation, connect_to};
use kube_io::server_time::server_time;
use ops::find::{FoundRollouts, find};
use ops::observe::{ObserveError, RolloutObserver, RolloutSnapshot};
use ops::target::RolloutTarget;

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
    /// The only namespace that is looked at.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// A client from [`ClusterOptions`], and what there is to look at.
pub(super) struct ClusterSession {
    client: Client,
    address: String,
    found: FoundRollouts,
    timeout: std::time::Duration,
    clock: RunClock,
}

impl ClusterSession {
    /// What there is to look at.
    pub(super) fn targets(&self) -> &[RolloutTarget] {
        &self.found.targets
    }

    /// The settings of every hook release.
    pub(super) fn hooks(&self) -> impl Iterator<Item = &Settings> {
        let released = self.found.targets.iter().filter(|target| target.release.is_some());
        released.map(|target| &target.settings).chain(&self.found.steps)
    }

    /// How the hook before the operator of a rollout looks, where there is one.
    pub(super) fn before(&self, settings: &Settings) -> Option<&PreflightSettings> {
        let same = |step: &&Settings| step.has(Task::Preflight) && step.driver == settings.driver && step.component == settings.component;
        self.found.steps.iter().find(same).map(|step| &step.preflight)
    }

    /// By which client.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What is worth knowing about it.
    pub(super) fn notes(&self) -> &[String] {
        &self.found.notes
    }

    /// Begins to follow one of the targets.
    ///
    /// # Errors
    /// As [`RolloutObserver::begin`].
    pub(super) async fn follow(&self, target: &RolloutTarget) -> Result<RolloutObserver, ObserveError> {
        RolloutObserver::begin(&self.client, target, self.timeout).await
    }

    /// Looks at each of the targets once.
    ///
    /// # Errors
    /// As [`RolloutObserver::observe`].
    pub(super) async fn look(&self) -> Result<Vec<RolloutSnapshot>, ObserveError> {
        let mut snapshots = Vec::new();
        for target in &self.found.targets {
            snapshots.push(self.follow(target).await?.observe(|| self.clock.now()).await?);
        }
        Ok(snapshots)
    }

    /// The time.
    pub(super) fn clock(&self) -> &RunClock {
        &self.clock
    }
}

/// Runs a command on what there is to look at; where there is nothing, or it cannot be read, says why.
pub(super) fn run(
    options: &ClusterOptions,
    printer: &mut Printer,
    command: impl AsyncFnOnce(ClusterSession, &mut Printer) -> Result<ExitCode, ObserveError>,
) -> ExitCode {
    run_anywhere(options, printer, async |cluster, printer| {
        if !cluster.targets().is_empty() {
            return command(cluster, printer).await;
        }
        for note in cluster.notes() {
            printer.note(&format!("note: {note}"));
        }
        let place = options.namespace.as_ref().map(|name| format!(" in namespace `{name}`")).unwrap_or_default();
        printer.error(
            &format!("{}: no hook release of gpu-rollout, no GPU operator and no network operator{place}", cluster.address),
            Some("see which cluster this is: kubectl config current-context; --context names another one"),
        );
        Ok(ExitCode::OperatorMissing)
    })
}

/// The same, also where there is nothing to look at.
pub(super) fn run_anywhere(
    options: &ClusterOptions,
    printer: &mut Printer,
    command: impl AsyncFnOnce(ClusterSession, &mut Printer) -> Result<ExitCode, ObserveError>,
) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            printer.error(&format!("unable to start: {error}"), None);
            return ExitCode::Internal;
        }
    };
    runtime.block_on(async {
        let place = ClusterLocation { kubeconfig: options.kubeconfig.clone(), context: options.context.clone() };
        let (client, address) = match connect_to(&place).await {
            Ok(connected) => connected,
            Err(error) => return no_client(&error, printer),
        };
        let found = match find(&client, options.namespace.as_deref()).await {
            Ok(found) => found,
            Err(error) => return refused(&error, &address, printer),
        };
        let timeout = std::time::Duration::from_secs(options.timeout.as_secs());
        let clock = server_clock(&client).await;
        match command(ClusterSession { client, address: address.clone(), found, timeout, clock }, printer).await {
            Ok(code) => code,
            Err(error) => refused(&error, &address, printer),
        }
    })
}

/// A clock that shows the API server's time: that of a workstation may be wrong, and what is shown are ages of objects.
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

fn no_client(error: &ClientError, printer: &mut Printer) -> ExitCode {
    printer
        .error(&error.with_causes(), Some("name a kubeconfig with --kubeconfig or KUBECONFIG, and a context that is in it with --context"));
    ExitCode::Input
}

/// Says why the cluster cannot be read; the answer is the exit code.
fn refused(error: &ObserveError, address: &str, printer: &mut Printer) -> ExitCode {
    let chain = |error: &ObserveError| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(error) = source {
            // Many an error repeats what it comes from.
            let more = error.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            source = error.source();
        }
        text
    };
    let (code, hint) = match error {
        ObserveError::Forbidden(_) => {
            (ExitCode::Rights, "reading needs get, list and watch on what docs/rights.md lists for `preflight`, `settle` and `reroll`")
        }
        ObserveError::Record(_) => {
            (ExitCode::NewerFormat, "use the version of gpu-rollout that the bundle was rendered with, or a newer one")
        }
        ObserveError::Late(..) | ObserveError::Call(CallError::Timeout | CallError::Unreachable(_) | CallError::Refused { .. }) => {
            (ExitCode::ApiUnreachable, "see whether the cluster answers: kubectl get nodes; --timeout gives it more time")
        }
        ObserveError::Call(_) => (ExitCode::Internal, "see whether the cluster answers: kubectl get nodes"),
    };
    printer.error(&format!("{address}: {}", chain(error)), Some(hint));
    code
}
