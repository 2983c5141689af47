//! What deploys a bundle: the real programs, each told in its own way. A story is written once and told with every one of them.

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

/// How a deployment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it has been rolled out.
    Succeeded,
    /// Some of it has not, and the deployer says so.
    Failed,
}

/// The deployers, as the tables of the documentation have them.
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
    /// Its column.
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

    /// For file names.
    pub(crate) fn word(self) -> String {
        self.column().to_lowercase().replace(' ', "")
    }

    /// What `bundle render --deployer` calls it.
    pub(crate) fn format(self) -> &'static str {
        match self {
            Self::Helm3 | Self::Helm4 => "helm",
            Self::Helmfile => "helmfile",
            Self::Flux => "flux",
            Self::ArgoCd => "argocd",
            Self::ArgoCdHelm => "argocd-helm",
        }
    }

    /// A person or a pipeline runs it, and each run deploys everything. The others look at a repository and do what has changed.
    pub(crate) fn is_client(self) -> bool {
        match self {
            Self::Helm3 | Self::Helm4 | Self::Helmfile => true,
            Self::Flux | Self::ArgoCd | Self::ArgoCdHelm => false,
        }
    }

    /// Brings it into a cluster, with an empty repository if it has one.
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

    /// The same, in the way in which it keeps the order of releases also in upgrades, where it has one.
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

    /// A release is held back until the ones before it have succeeded. Not so where an umbrella chart makes all Applications at once.
    pub(crate) fn keeps_order(self) -> bool {
        self != Self::ArgoCdHelm
    }
}

/// What a deployer's methods return: they are called through `dyn`, so that a story is compiled once.
pub(crate) type Told<'a, T = ()> = LocalBoxFuture<'a, Result<T>>;

/// One of the programs that deploy bundles, in a cluster.
pub(crate) trait Deployer {
    /// Which one.
    fn kind(&self) -> Kind;

    /// The bundle, where its user edits it.
    fn bundle(&self) -> PathBuf;

    /// Renders a recipe and hands the bundle over, as its documentation says. Returns before it has been deployed.
    fn deploy<'a>(&'a self, stack: &'a Stack, ask: &'a Ask) -> Told<'a>;

    /// Hands over the bundle as it stands there now: edited by hand, or just as it was (a second run, an empty commit).
    fn hand_over<'a>(&'a self, stack: &'a Stack, message: &'a str) -> Told<'a>;

    /// Has it look once more although nothing has been handed over (`flux reconcile`, *Refresh*), and waits until it has. A client has
    /// nothing to look at by itself: `false`.
    fn look<'a>(&'a self, stack: &'a Stack) -> Told<'a, bool>;

    /// Waits until it has come to an end with what was handed over last.
    fn end<'a>(&'a self, stack: &'a Stack) -> Told<'a, Outcome>;

    /// The same, and fails if it is not this end.
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

    /// What it shows its user now of all releases.
    fn status<'a>(&'a self, stack: &'a Stack) -> Told<'a, String>;

    /// What it shows of the release of a hook, for a table: without anything that differs between runs.
    fn says<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>) -> Told<'a, String>;

    /// Does what its documentation says to do after the release of a hook has failed, to a good end. The answer: what that is, for a table.
    fn recover<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>)
    -> Told<'a, &'static str>;

    /// Is killed at work (SIGKILL). Controllers are started again, as Kubernetes would; a client is not.
    fn kill(&self) -> Told<'_>;

    /// Gets Ctrl-C at work, as a client in a terminal may. A controller has none.
    fn interrupt(&self) -> Told<'_> {
        async { bail!("a controller has no terminal") }.boxed_local()
    }

    /// Waits until it has come to a good end with what was handed over last, though something that was handed over before may still be at
    /// work. The answer: what that takes, for a table.
    fn finish<'a>(&'a self, stack: &'a Stack) -> Told<'a, &'static str>;
}
