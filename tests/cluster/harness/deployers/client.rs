//! Programs that a person or a pipeline runs: `deploy.sh` with either Helm, and helmfile.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use tokio::sync::Mutex;

use super::{Deployer, Kind, Outcome, Told};
use crate::harness::ask::Ask;
use crate::harness::process::Process;
use crate::harness::stack::Stack;
use crate::harness::tools::program;

/// A client, its bundle, and the runs that it has had.
pub(crate) struct Client {
    kind: Kind,
    bundle: PathBuf,
    /// `helm` of this client, under that name.
    helm: PathBuf,
    /// The run that was begun last, and how many there have been.
    run: Mutex<(Option<Process>, usize)>,
}

impl Client {
    /// Makes it; nothing is deployed yet.
    pub(crate) fn new(stack: &Stack, kind: Kind) -> Result<Self> {
        let directory = stack.helm.directory();
        let bin = directory.join(kind.word());
        fs::create_dir_all(&bin)?;
        let helm = bin.join("helm");
        let real = program(if kind == Kind::Helm3 { "helm3" } else { "helm4" })?;
        // Helm ends with the script or the helmfile that runs it, also when that is killed.
        fs::write(&helm, format!("#!/bin/sh\nexec setpriv --pdeathsig KILL -- {} \"$@\"\n", real.display()))?;
        fs::set_permissions(&helm, fs::Permissions::from_mode(0o755))?;
        Ok(Self { kind, bundle: directory.join("bundle"), helm, run: Mutex::new((None, 0)) })
    }

    async fn begin(&self, stack: &Stack) -> Result<()> {
        let mut run = self.run.lock().await;
        run.1 += 1;
        let name = format!("{}-{}", self.kind.word(), run.1);
        let helm = self.helm.display().to_string();
        let (program, arguments) = match self.kind {
            Kind::Helmfile => {
                let file = self.bundle.join("helmfile.yaml").display().to_string();
                (program("helmfile")?, vec!["--no-color".to_owned(), "--file".into(), file, "--helm-binary".into(), helm, "sync".into()])
            }
            Kind::Helm3 | Kind::Helm4 | Kind::Flux | Kind::ArgoCd | Kind::ArgoCdHelm => (self.bundle.join("deploy.sh"), Vec::new()),
        };
        let mut environment = stack.helm.environment().to_vec();
        environment.push(("HELM", self.helm.display().to_string()));
        // helmfile keeps what it fetches there, and nothing of whoever runs the tests is wanted.
        environment.push(("HELMFILE_CACHE_HOME", stack.helm.directory().join("helmfile").display().to_string()));
        run.0 = Some(Process::start(stack.helm.directory(), &name, &program, arguments, &environment)?);
        Ok(())
    }

    async fn wait_for(&self, outcome: Outcome) -> Result<()> {
        let mut run = self.run.lock().await;
        let process = run.0.as_mut().context("nothing was handed over yet")?;
        let status = process.wait().await?;
        let ended = if status.success() { Outcome::Succeeded } else { Outcome::Failed };
        ensure!(ended == outcome, "{ended:?} and not {outcome:?}: {status}\n{}", process.log());
        Ok(())
    }
}

impl Deployer for Client {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn bundle(&self) -> PathBuf {
        self.bundle.clone()
    }

    fn deploy<'a>(&'a self, stack: &'a Stack, ask: &'a Ask) -> Told<'a> {
        async move {
            stack.render_for(self.kind.format(), &self.bundle, &["--force"], ask).await?;
            self.begin(stack).await
        }
        .boxed_local()
    }

    fn hand_over<'a>(&'a self, stack: &'a Stack, _message: &'a str) -> Told<'a> {
        self.begin(stack).boxed_local()
    }

    fn look<'a>(&'a self, _stack: &'a Stack) -> Told<'a, bool> {
        async { Ok(false) }.boxed_local()
    }

    fn wait<'a>(&'a self, _stack: &'a Stack, outcome: Outcome) -> Told<'a> {
        self.wait_for(outcome).boxed_local()
    }

    fn status<'a>(&'a self, _stack: &'a Stack) -> Told<'a, String> {
        async move { Ok(self.run.lock().await.0.as_ref().map(Process::log).unwrap_or_default()) }.boxed_local()
    }
}
