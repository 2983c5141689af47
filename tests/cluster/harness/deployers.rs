//! What deploys a bundle: the real programs, each told in its own way.

pub(crate) mod argocd;

use anyhow::Result;

use super::fleet::Release;
use super::stack::Stack;

/// How a deployment may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything is deployed, and all hooks have succeeded.
    Succeeded,
    /// It has given up.
    Failed,
}

/// One deployer.
pub(crate) trait Deployer {
    /// Its name as `bundle render --deployer` knows it.
    fn name(&self) -> &'static str;
    /// Renders the recipe of a release for it and hands the bundle over, as its documentation says.
    async fn deploy(&self, stack: &Stack, release: &Release, gpu_nodes: usize) -> Result<()>;
    /// Waits until it has come to its end with what was handed over last.
    async fn wait(&self, stack: &Stack, outcome: Outcome) -> Result<()>;
    /// What it shows its user now.
    async fn status(&self, stack: &Stack) -> Result<String>;
}
