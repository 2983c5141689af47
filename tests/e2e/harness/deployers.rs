//! The deployers of bundles: the real programs behind one trait. A story is written once and runs
//! with each of them.

pub(crate) mod argocd;
mod client;
pub(crate) mod flux;

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use futures::FutureExt;
use futures::future::LocalBoxFuture;

use self::argocd::{ArgoCd, Follow, Form};
use self::client::Client;
use self::flux::Flux;
use super::ask::Ask;
use super::hook_release::HookRelease;
use super::stack::Stack;

/// The result of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was rolled out.
    Succeeded,
    /// A part failed, and the deployer reports it.
    Failed,
}

/// The deployers, as in the tables of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `deploy.sh` with Helm 3.
    Helm3,
    /// `deploy.sh` with Helm 4.
    Helm4,
    /// `helmfile sync`.
    Helmfile,
    /// Flux.
    Flux,
    /// A root Application that holds the others.
    ArgoCd,
    /// An umbrella chart of Applications.
    ArgoCdHelm,
}

impl Kind {
    /// Returns its column in the tables.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Helm3 => "Helm 3",
            Self::Helm4 => "Helm 4",
            Self::Helmfile => "helmfile",
            Self::Flux => "Flux",
            Self::ArgoCd => "Argo CD",
            Self::ArgoCdHelm => "argocd-helm",
        }
    }

    /// Returns its name for file names.
    pub(crate) fn word(self) -> String {
        self.column().to_lowercase().replace(' ', "")
    }

    /// Returns its value for `bundle render --deployer`.
    pub(crate) fn format(self) -> &'static str {
        match self {
            Self::Helm3 | Self::Helm4 => "helm",
            Self::Helmfile => "helmfile",
            Self::Flux => "flux",
            Self::ArgoCd => "argocd",
            Self::ArgoCdHelm => "argocd-helm",
        }
    }

    /// Whether a user or a pipeline runs it, so that each run deploys everything. The others watch
    /// a repository and deploy changes.
    pub(crate) fn is_client(self) -> bool {
        match self {
            Self::Helm3 | Self::Helm4 | Self::Helmfile => true,
            Self::Flux | Self::ArgoCd | Self::ArgoCdHelm => false,
        }
    }

    /// Starts it in a cluster, with an empty repository if it needs one.
    pub(crate) async fn start(self, stack: &Stack) -> Result<Box<dyn Deployer>> {
        Ok(match self {
            Self::Helm3 | Self::Helm4 | Self::Helmfile => Box::new(Client::new(stack, self)?),
            Self::Flux => Box::new(Flux::start(stack).await?),
            Self::ArgoCd => {
                Box::new(ArgoCd::start(stack, Form::Applications, Follow::Branch).await?)
            }
            Self::ArgoCdHelm => {
                Box::new(ArgoCd::start(stack, Form::Umbrella, Follow::Branch).await?)
            }
        })
    }

    /// Starts it in the way that keeps the order of releases in upgrades too, if it has one.
    pub(crate) async fn start_in_order(self, stack: &Stack) -> Result<Box<dyn Deployer>> {
        match self {
            Self::ArgoCd => {
                Ok(Box::new(ArgoCd::start(stack, Form::Applications, Follow::Tags).await?))
            }
            Self::Helm3 | Self::Helm4 | Self::Helmfile | Self::Flux | Self::ArgoCdHelm => {
                self.start(stack).await
            }
        }
    }

    /// Whether a release waits until the ones before it have succeeded. An umbrella chart creates
    /// all Applications at once, so there it does not.
    pub(crate) fn keeps_order(self) -> bool {
        self != Self::ArgoCdHelm
    }
}

/// The return type of a deployer's methods. They are called through `dyn`, so that a story is
/// compiled once.
pub(crate) type Told<'a, T = ()> = LocalBoxFuture<'a, Result<T>>;

/// One of the programs that deploy bundles, in a cluster.
pub(crate) trait Deployer {
    /// Returns the kind of the deployer.
    fn kind(&self) -> Kind;

    /// Returns the path of the bundle that the user edits.
    fn bundle(&self) -> PathBuf;

    /// Renders a recipe and hands the bundle over, as documented. Returns before the bundle is
    /// deployed.
    fn deploy<'a>(&'a self, stack: &'a Stack, ask: &'a Ask) -> Told<'a>;

    /// Hands over the current bundle: edited by hand, or unchanged (a second run, an empty commit).
    fn hand_over<'a>(&'a self, stack: &'a Stack, message: &'a str) -> Told<'a>;

    /// Makes it check again although nothing was handed over (`flux reconcile`, *Refresh*), and
    /// waits until it has. A client cannot check: `false`.
    fn look<'a>(&'a self, stack: &'a Stack) -> Told<'a, bool>;

    /// Waits until it has finished the last bundle that was handed over.
    fn end<'a>(&'a self, stack: &'a Stack) -> Told<'a, Outcome>;

    /// Waits as `end` does, and fails if the outcome differs.
    fn wait<'a>(&'a self, stack: &'a Stack, outcome: Outcome) -> Told<'a> {
        async move {
            let ended = self.end(stack).await?;
            ensure!(
                ended == outcome,
                "{} {ended:?}, and not {outcome:?}:\n{}",
                self.kind().column(),
                self.status(stack).await?
            );
            Ok(())
        }
        .boxed_local()
    }

    /// Returns the status of all releases that it shows the user.
    fn status<'a>(&'a self, stack: &'a Stack) -> Told<'a, String>;

    /// Returns the status of a hook's release for a table, without parts that differ between runs.
    fn says<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>) -> Told<'a, String>;

    /// Performs the documented recovery after the release of a hook has failed, until it succeeds.
    /// Returns the steps, for a table.
    fn recover<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>)
    -> Told<'a, &'static str>;

    /// Kills it during its work (SIGKILL). Controllers are started again, as Kubernetes would do. A
    /// client is not.
    fn kill(&self) -> Told<'_>;

    /// Sends Ctrl-C during its work, as to a client in a terminal. Not for controllers.
    fn interrupt(&self) -> Told<'_> {
        async { bail!("a controller has no terminal") }.boxed_local()
    }

    /// Waits until it has succeeded with the last bundle, while an earlier bundle may still be in
    /// progress. Returns the necessary steps, for a table.
    fn finish<'a>(&'a self, stack: &'a Stack) -> Told<'a, &'static str>;
}
