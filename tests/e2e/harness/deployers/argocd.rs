//! Argo CD: repo-server, application-controller and Redis as plain processes. Argo CD reads the
//! bundle from a Git repository by `file://`, or from a registry.

mod application;
mod place;
mod programs;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{Deployer, Kind, Outcome, Told};
use crate::harness::apply::Applier;
use crate::harness::ask::Ask;
use crate::harness::git::BRANCH;
use crate::harness::hook_release::HookRelease;
use crate::harness::registry::Registry;
use crate::harness::stack::Stack;
use crate::harness::wait::until;
use application::{Application, kind};
use place::{FOLDER, Place};
use programs::Programs;

pub(crate) use programs::ADDRESSES;

/// The namespace of Argo CD.
pub(crate) const NAMESPACE: &str = "argocd";
/// The name of the root Application, which is that of the recipe. The names of the others start
/// with it.
const ROOT: &str = "e2e";
/// Selects all Applications of the bundle, including the root.
const OF_BUNDLE: &str = "app.kubernetes.io/part-of=e2e";
/// Longer than a whole bundle takes, including the retries that are necessary without an order.
const LIMIT: Duration = Duration::from_mins(8);

/// The form in which the bundle is rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `argocd`: a root Application holds the others.
    Applications,
    /// `argocd-helm`: Helm installs an umbrella chart of them.
    Umbrella,
}

/// The revision of the Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The branch: each Application detects a commit independently.
    Branch,
    /// A tag for each deployment, as the bundle's README describes for upgrades in order.
    Tags,
}

/// A running Argo CD, and the place that it deploys from.
pub(crate) struct ArgoCd {
    form: Form,
    follow: Follow,
    place: Place,
    programs: Mutex<Programs>,
    /// The commits or digests that were handed over.
    commits: RefCell<Vec<String>>,
    /// The recipe that was rendered last.
    asked: RefCell<Option<Ask>>,
}

impl ArgoCd {
    /// Starts Argo CD for this stack.
    pub(crate) async fn start(stack: &Stack, form: Form, follow: Follow) -> Result<Self> {
        let programs = Programs::start(stack).await?;
        let place = Place::git(stack.helm.directory()).await?;
        Ok(Self::new(form, follow, place, programs))
    }

    /// Starts Argo CD for bundles in a registry, each with a tag of its own.
    pub(crate) async fn start_from_registry(stack: &Stack, registry: Registry) -> Result<Self> {
        let programs = Programs::start(stack).await?;
        let place = Place::registry(stack, registry).await?;
        Ok(Self::new(Form::Applications, Follow::Tags, place, programs))
    }

    fn new(form: Form, follow: Follow, place: Place, programs: Programs) -> Self {
        let (commits, asked) = (RefCell::default(), RefCell::default());
        Self { form, follow, place, programs: Mutex::new(programs), commits, asked }
    }

    /// Refreshes every Application, as the button *Refresh* does. Returns when Argo CD has compared
    /// all of them again.
    async fn refresh(&self, stack: &Stack) -> Result<()> {
        let patch = Patch::Merge(
            json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}),
        );
        let api = applications(stack);
        for application in list(&api).await? {
            api.patch(&application.name, &PatchParams::default(), &patch).await?;
        }
        // The controller removes the annotation after the comparison.
        until("every Application to be refreshed", LIMIT, async || {
            self.check_alive().await?;
            Ok(list(&api).await?.iter().all(|application| !application.refreshing).then_some(()))
        })
        .await
    }

    /// Fails if one of the programs has ended unexpectedly.
    async fn check_alive(&self) -> Result<()> {
        self.programs.lock().await.check_alive()
    }

    async fn render(&self, stack: &Stack, ask: &Ask) -> Result<()> {
        let url = self.place.url();
        let source = ["--repo", &url, "--revision", &self.revision(), "--path", FOLDER, "--force"];
        stack.render_for(self.kind().format(), &self.bundle(), &source, ask).await?;
        self.asked.replace(Some(ask.clone()));
        self.push(stack, &format!("gpu-operator {}", ask.chart)).await
    }

    /// Returns the revision that the next bundle is deployed by.
    fn revision(&self) -> String {
        match self.follow {
            Follow::Branch => BRANCH.to_owned(),
            Follow::Tags => format!("release-{}", self.commits.borrow().len()),
        }
    }

    async fn push(&self, stack: &Stack, message: &str) -> Result<()> {
        let bundle = self.bundle();
        let commit = self.place.hand_over(self.follow, &self.revision(), message).await?;
        let settings = Api::<ConfigMap>::namespaced(stack.client.clone(), NAMESPACE);
        let health = Patch::Merge(read(&bundle.join("argocd-cm-health.yaml"))?);
        settings.patch("argocd-cm", &PatchParams::default(), &health).await?;
        match self.form {
            Form::Applications => self.apply(stack, &bundle).await?,
            Form::Umbrella => self.install(stack, &bundle).await?,
        }
        self.commits.borrow_mut().push(commit);
        self.refresh(stack).await
    }

    async fn ended(&self, stack: &Stack) -> Result<Outcome> {
        let commit = self.commits.borrow().last().context("nothing was handed over yet")?.clone();
        let api = applications(stack);
        let what = format!("{} to end", self.kind().column());
        let waited = until(&what, LIMIT, async || {
            self.check_alive().await?;
            let all = list(&api).await?;
            let failed = all.iter().any(|application| application.has_failed(&commit));
            let done =
                !all.is_empty() && all.iter().all(|application| application.is_done(&commit));
            Ok((failed || done).then_some(if failed {
                Outcome::Failed
            } else {
                Outcome::Succeeded
            }))
        });
        match waited.await {
            Ok(ended) => Ok(ended),
            Err(error) => Err(error.context(status(stack).await?)),
        }
    }

    /// Runs `argocd app sync NAME` and waits for the end of the sync.
    async fn sync(&self, stack: &Stack, name: &str) -> Result<()> {
        let api = applications(stack);
        let before = Application::from(&api.get(name).await?);
        api.patch(name, &PatchParams::default(), &Patch::Merge(before.sync_request())).await?;
        let what = format!("the sync of {name}");
        let waited = until(&what, LIMIT, async || {
            self.check_alive().await?;
            let now = Application::from(&api.get(name).await?);
            Ok((now.begun() != before.begun() && now.is_over()).then_some(()))
        });
        waited.await.with_context(|| format!("{before}"))
    }

    /// Runs `argocd app terminate-op NAME` for each Application that is still syncing another
    /// commit than the newest. Returns their names.
    async fn terminate(&self, stack: &Stack) -> Result<BTreeSet<String>> {
        let commit = self.commits.borrow().last().context("nothing was handed over yet")?.clone();
        let (api, mut names) = (applications(stack), BTreeSet::new());
        // The controller may overwrite the patch with an older state.
        until("no Application to sync another commit", LIMIT, async || {
            let behind: Vec<Application> = list(&api)
                .await?
                .into_iter()
                .filter(|application| application.is_behind(&commit))
                .collect();
            for application in &behind {
                api.patch(
                    &application.name,
                    &PatchParams::default(),
                    &Patch::Merge(Application::termination()),
                )
                .await?;
                names.insert(application.name.clone());
            }
            Ok(behind.is_empty().then_some(()))
        })
        .await?;
        Ok(names)
    }

    /// Returns the Application of a release.
    async fn application(&self, stack: &Stack, release: &str) -> Result<Application> {
        let all = list(&applications(stack)).await?;
        all.into_iter()
            .find(|application| application.name == format!("{ROOT}-{release}"))
            .with_context(|| format!("no Application of release {release}"))
    }

    /// Applies the files, as the README of `argocd` describes after the push of the bundle.
    async fn apply(&self, stack: &Stack, bundle: &Path) -> Result<()> {
        let applier = Applier::new(&stack.client);
        for file in ["project.yaml", "root-project.yaml", "root.yaml"] {
            applier.apply(&read(&bundle.join(file))?, NAMESPACE).await?;
        }
        Ok(())
    }

    /// Installs the umbrella chart, as the README of `argocd-helm` describes.
    async fn install(&self, stack: &Stack, bundle: &Path) -> Result<()> {
        let chart = bundle.display().to_string();
        stack.helm.ok(&["upgrade", "--install", "e2e", &chart, "--namespace", NAMESPACE]).await?;
        Ok(())
    }
}

impl Deployer for ArgoCd {
    fn kind(&self) -> Kind {
        match self.form {
            Form::Applications => Kind::ArgoCd,
            Form::Umbrella => Kind::ArgoCdHelm,
        }
    }

    fn bundle(&self) -> PathBuf {
        self.place.bundle()
    }

    fn deploy<'a>(&'a self, stack: &'a Stack, ask: &'a Ask) -> Told<'a> {
        self.render(stack, ask).boxed_local()
    }

    fn hand_over<'a>(&'a self, stack: &'a Stack, message: &'a str) -> Told<'a> {
        async move {
            // The files of the bundle contain the tag.
            let asked = self.asked.borrow().clone().filter(|_| self.follow == Follow::Tags);
            match asked {
                Some(ask) => self.render(stack, &ask).await,
                None => self.push(stack, message).await,
            }
        }
        .boxed_local()
    }

    fn look<'a>(&'a self, stack: &'a Stack) -> Told<'a, bool> {
        async move { self.refresh(stack).await.map(|()| true) }.boxed_local()
    }

    fn end<'a>(&'a self, stack: &'a Stack) -> Told<'a, Outcome> {
        self.ended(stack).boxed_local()
    }

    fn status<'a>(&'a self, stack: &'a Stack) -> Told<'a, String> {
        status(stack).boxed_local()
    }

    fn says<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>) -> Told<'a, String> {
        async move { Ok(self.application(stack, hook.name()).await?.says()) }.boxed_local()
    }

    fn recover<'a>(
        &'a self,
        stack: &'a Stack,
        hook: &'a HookRelease<'a>,
    ) -> Told<'a, &'static str> {
        async move {
            self.sync(stack, &self.application(stack, hook.name()).await?.name).await?;
            if self.form == Form::Applications {
                self.sync(stack, ROOT).await?;
            }
            self.wait(stack, Outcome::Succeeded).await?;
            Ok("`argocd app sync APPLICATION`")
        }
        .boxed_local()
    }

    fn kill(&self) -> Told<'_> {
        async move { self.programs.lock().await.restart_controller().await }.boxed_local()
    }

    fn finish<'a>(&'a self, stack: &'a Stack) -> Told<'a, &'static str> {
        async move {
            let behind = self.terminate(stack).await?;
            ensure!(!behind.is_empty(), "no Application is still syncing the previous commit");
            self.wait(stack, Outcome::Succeeded).await?;
            Ok("`argocd app terminate-op APPLICATION`; Argo CD then syncs it automatically")
        }
        .boxed_local()
    }
}

async fn status(stack: &Stack) -> Result<String> {
    let all = list(&applications(stack)).await?;
    Ok(all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn applications(stack: &Stack) -> Api<DynamicObject> {
    Api::namespaced_with(stack.client.clone(), NAMESPACE, &kind())
}

async fn list(api: &Api<DynamicObject>) -> Result<Vec<Application>> {
    let list = api.list(&ListParams::default().labels(OF_BUNDLE)).await?;
    Ok(list.items.iter().map(Application::from).collect())
}

fn read(file: &Path) -> Result<Value> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    match serde_yaml::from_str(&text) {
        Ok(object) => Ok(object),
        Err(error) => bail!("{}: {error}", file.display()),
    }
}
