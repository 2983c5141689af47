//! What deploys a bundle: the real programs, each told in its own way.

pub(crate) mod argocd;
pub(crate) mod flux;

use anyhow::Result;

use super::fleet::Release;
use super::stack::Stack;

/// How a deployment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it has been rolled out.
    Succeeded,
    /// Some of it has not, and the deployer says so.
    Failed,
}

/// One of the programs that deploy bundles.
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
