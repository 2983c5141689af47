//! Deployers that a user or a pipeline runs: `deploy.sh` with Helm 3 or Helm 4, and helmfile.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::Value;
use tokio::sync::Mutex;

use super::{Deployer, Kind, Outcome, Told};
use crate::harness::ask::Ask;
use crate::harness::hook_release::HookRelease;
use crate::harness::process::Process;
use crate::harness::stack::Stack;
use crate::harness::tools::program;

/// The errors of `deploy.sh` and of Helm about a release that another client is deploying.
const BUSY: [&str; 2] = [
    "is in the middle of another operation",
    "another operation (install/upgrade/rollback) is in progress",
];
/// The signal that a process cannot handle (POSIX).
const SIGKILL: i32 = 9;
/// Selects the Secrets of the revisions that a killed client left pending, as in `deploy.sh` and in
/// the README of `helmfile`.
const PENDING: &str = "status in (pending-install,pending-upgrade,pending-rollback)";

/// A client, its bundles and its runs.
pub(crate) struct Client {
    kind: Kind,
    /// The directory of its files.
    directory: PathBuf,
    /// How many bundles were rendered. Each has its own folder, because a run may still deploy the
    /// previous one.
    bundles: Cell<usize>,
    /// The program named `helm` that this client runs.
    helm: PathBuf,
    /// The runs, oldest first.
    runs: Mutex<Vec<Process>>,
}

impl Client {
    /// Creates a client, without a deployment.
    pub(crate) fn new(stack: &Stack, kind: Kind) -> Result<Self> {
        let directory = stack.helm.directory();
        let bin = directory.join(kind.word());
        fs::create_dir_all(&bin)?;
        let helm = bin.join("helm");
        let real = program(if kind == Kind::Helm3 { "helm3" } else { "helm4" })?;
        // Helm must not outlive the script or helmfile that runs it. It gets SIGINT, as after
        // Ctrl-C, so that it is not killed if they are not.
        fs::write(
            &helm,
            format!("#!/bin/sh\nexec setpriv --pdeathsig INT -- {} \"$@\"\n", real.display()),
        )?;
        fs::set_permissions(&helm, fs::Permissions::from_mode(0o755))?;
        Ok(Self { kind, directory: bin, bundles: Cell::default(), helm, runs: Mutex::default() })
    }

    /// Starts a run. `from` is the first release, for a client that has such an option.
    async fn begin(&self, stack: &Stack, from: Option<&str>) -> Result<()> {
        let mut runs = self.runs.lock().await;
        let name = format!("{}-{}", self.kind.word(), runs.len() + 1);
        let helm = self.helm.display().to_string();
        let (program, arguments) = match self.kind {
            Kind::Helmfile => {
                let file = self.bundle().join("helmfile.yaml").display().to_string();
                (
                    program("helmfile")?,
                    vec![
                        "--no-color".to_owned(),
                        "--file".into(),
                        file,
                        "--helm-binary".into(),
                        helm,
                        "sync".into(),
                    ],
                )
            }
            Kind::Helm3 | Kind::Helm4 | Kind::Flux | Kind::ArgoCd | Kind::ArgoCdHelm => {
                let from = from.map(|release| ["--from".to_owned(), release.to_owned()]);
                (self.bundle().join("deploy.sh"), from.into_iter().flatten().collect())
            }
        };
        let mut environment = stack.helm.environment().to_vec();
        environment.push(("HELM", self.helm.display().to_string()));
        // The cache of helmfile. The tests do not use that of the user who runs them.
        environment.push((
            "HELMFILE_CACHE_HOME",
            stack.helm.directory().join("helmfile").display().to_string(),
        ));
        runs.push(Process::start(
            stack.helm.directory(),
            &name,
            &program,
            arguments,
            &environment,
        )?);
        Ok(())
    }

    /// Waits for the end of the last run.
    async fn ended(&self) -> Result<Outcome> {
        let mut runs = self.runs.lock().await;
        let last = runs.last_mut().context("nothing was handed over yet")?;
        Ok(if last.wait().await?.success() { Outcome::Succeeded } else { Outcome::Failed })
    }

    async fn log(&self) -> String {
        self.runs.lock().await.last().map(Process::log).unwrap_or_default()
    }

    async fn exit(&self) -> Result<String> {
        let mut runs = self.runs.lock().await;
        let status = runs.last_mut().context("nothing was handed over yet")?.wait().await?;
        Ok(match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, None | Some(SIGKILL)) => "killed".to_owned(),
            // As a shell reports it.
            (None, Some(signal)) => format!("exit {}", 128 + signal),
        })
    }

    /// Returns the status of the release in `helm status`.
    async fn release(stack: &Stack, hook: &HookRelease<'_>) -> Result<String> {
        let said = stack
            .helm
            .ok(&["status", hook.name(), "--namespace", hook.namespace(), "--output", "json"])
            .await?;
        let status: Value = serde_json::from_str(&said.stdout)?;
        Ok(status["info"]["status"].as_str().context("no status")?.to_owned())
    }

    async fn go_on(&self, stack: &Stack, hook: &HookRelease<'_>) -> Result<&'static str> {
        let pending = Self::release(stack, hook).await?.starts_with("pending");
        if pending {
            self.begin(stack, Some(hook.name())).await?;
            ensure!(
                self.ended().await? == Outcome::Failed,
                "the client succeeded with a pending release"
            );
            let log = self.log().await;
            ensure!(
                BUSY.iter().any(|busy| log.contains(busy)),
                "the client does not report the pending release:\n{log}"
            );
            let selector = format!("owner=helm,name={},{PENDING}", hook.name());
            // helmfile prints Helm's error. The recovery is in the README.
            let told = if self.kind == Kind::Helmfile {
                fs::read_to_string(self.bundle().join("README.md"))?
            } else {
                log
            };
            let general = format!("owner=helm,name=RELEASE,{PENDING}");
            ensure!(
                told.contains(&selector) || told.contains(&general),
                "the recovery is not described:\n{told}"
            );
            let secrets = Api::<Secret>::namespaced(stack.client.clone(), hook.namespace());
            let pending = ListParams::default().labels(&selector);
            let number = secrets.list(&pending).await?.items.len();
            ensure!(number == 1, "{number} Secrets are selected, expected 1");
            secrets.delete_collection(&DeleteParams::default(), &pending).await?;
        }
        self.begin(stack, Some(hook.name())).await?;
        self.wait(stack, Outcome::Succeeded).await?;
        Ok(match (self.kind == Kind::Helmfile, pending) {
            (true, false) => "`helmfile sync`",
            (true, true) => {
                "delete the Secret of the pending revision (README.md), then `helmfile sync`"
            }
            (false, false) => "`deploy.sh --from RELEASE`",
            (false, true) => {
                "delete the Secret of the pending revision (`deploy.sh` prints the command), then `deploy.sh --from RELEASE`"
            }
        })
    }

    /// Completes two concurrent runs. The second one waits in its first hook, and fails at a
    /// release that the first one is deploying.
    async fn both(&self, stack: &Stack) -> Result<&'static str> {
        let ended = self.ended().await?;
        if let [.., first, _] = self.runs.lock().await.as_mut_slice() {
            ensure!(
                first.wait().await?.success(),
                "the first run failed because of the second:\n{}",
                first.log()
            );
        }
        if ended == Outcome::Failed {
            let log = self.log().await;
            ensure!(
                BUSY.iter().any(|busy| log.contains(busy)),
                "the second run failed, but not because of the first one:\n{log}"
            );
            self.begin(stack, None).await?;
            self.wait(stack, Outcome::Succeeded).await?;
        }
        Ok(
            "the second deployment waits in `gpu-operator-pre` for the first; if it fails at a release that the first is upgrading, run it again",
        )
    }
}

impl Deployer for Client {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn bundle(&self) -> PathBuf {
        self.directory.join(format!("bundle-{}", self.bundles.get()))
    }

    fn deploy<'a>(&'a self, stack: &'a Stack, ask: &'a Ask) -> Told<'a> {
        async move {
            self.bundles.update(|bundles| bundles + 1);
            stack.render_for(self.kind.format(), &self.bundle(), &[], ask).await?;
            self.begin(stack, None).await
        }
        .boxed_local()
    }

    fn hand_over<'a>(&'a self, stack: &'a Stack, _message: &'a str) -> Told<'a> {
        self.begin(stack, None).boxed_local()
    }

    fn look<'a>(&'a self, _stack: &'a Stack) -> Told<'a, bool> {
        async { Ok(false) }.boxed_local()
    }

    fn end<'a>(&'a self, _stack: &'a Stack) -> Told<'a, Outcome> {
        self.ended().boxed_local()
    }

    fn status<'a>(&'a self, _stack: &'a Stack) -> Told<'a, String> {
        async move { Ok(self.log().await) }.boxed_local()
    }

    fn says<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>) -> Told<'a, String> {
        async move {
            Ok(format!("{}, release {}", self.exit().await?, Self::release(stack, hook).await?))
        }
        .boxed_local()
    }

    fn recover<'a>(
        &'a self,
        stack: &'a Stack,
        hook: &'a HookRelease<'a>,
    ) -> Told<'a, &'static str> {
        self.go_on(stack, hook).boxed_local()
    }

    fn kill(&self) -> Told<'_> {
        async move {
            self.runs.lock().await.last_mut().context("nothing was handed over yet")?.kill().await
        }
        .boxed_local()
    }

    fn interrupt(&self) -> Told<'_> {
        async move {
            let mut runs = self.runs.lock().await;
            runs.last_mut().context("nothing was handed over yet")?.interrupt().await
        }
        .boxed_local()
    }

    fn finish<'a>(&'a self, stack: &'a Stack) -> Told<'a, &'static str> {
        self.both(stack).boxed_local()
    }
}
