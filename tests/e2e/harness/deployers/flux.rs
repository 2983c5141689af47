//! Flux: source-, kustomize- and helm-controller as plain processes, and a Git repository that the
//! bundle is committed to, or a registry that it is pushed to.

mod place;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result};
use futures::FutureExt;
use futures::future::select_all;
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{Deployer, Kind, Outcome, Told};
use crate::harness::apply::Applier;
use crate::harness::ask::Ask;
use crate::harness::cosign::Cosign;
use crate::harness::hook_release::HookRelease;
use crate::harness::ports::free_port;
use crate::harness::process::Process;
use crate::harness::registry::Registry;
use crate::harness::stack::Stack;
use crate::harness::tools::{definitions, program};
use crate::harness::wait::{until, watch_until};
use place::{Place, SIGNER};

/// The namespace of Flux and of every object that it reads.
const NAMESPACE: &str = "flux-system";
/// The name that the bundle gives to its source and its Kustomization.
pub(crate) const SYNC: &str = "gpu-rollout";
/// An upgrade of three nodes with all its releases, on a busy machine.
const LIMIT: Duration = Duration::from_mins(6);
/// Asks a controller to reconcile an object now, as `flux reconcile` does.
const REQUESTED: &str = "reconcile.fluxcd.io/requestedAt";
/// With the same token, forces an upgrade although nothing has changed, as `flux reconcile
/// helmrelease --force` does.
const FORCED: &str = "reconcile.fluxcd.io/forceAt";
/// The condition with the result of a reconciliation.
const READY: &str = "Ready";
/// The condition with the result of the verification of a signature.
const VERIFIED: &str = "SourceVerified";
/// The controller that runs hooks.
const HELM_CONTROLLER: &str = "helm-controller";

/// A running Flux, and the place that it deploys from.
pub(crate) struct Flux {
    place: Place,
    /// Flux's notation of the revision that was handed over last.
    revision: RefCell<String>,
    controllers: Mutex<Vec<Process>>,
}

impl Flux {
    /// Installs Flux, with an empty Git repository.
    pub(crate) async fn start(stack: &Stack) -> Result<Self> {
        Self::install(stack, Place::git(stack.helm.directory()).await?).await
    }

    /// Installs Flux for a bundle in a registry. Flux accepts only what `signer` has signed.
    pub(crate) async fn start_from_registry(
        stack: &Stack,
        registry: Registry,
        signer: &Cosign,
    ) -> Result<Self> {
        let flux = Self::install(stack, Place::registry(stack.helm.directory(), registry)).await?;
        let key = std::fs::read_to_string(signer.public_key())?;
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SIGNER},
            "stringData": {"cosign.pub": key},
        });
        Applier::new(&stack.client).apply(&secret, NAMESPACE).await?;
        Ok(flux)
    }

    async fn install(stack: &Stack, place: Place) -> Result<Self> {
        let applier = Applier::new(&stack.client);
        for file in definitions("flux")? {
            applier.apply_crd(&read(&file)?).await?;
        }
        stack.create_namespace(NAMESPACE).await?;
        let directory = stack.helm.directory();
        let controllers = Mutex::new(controllers(directory, &stack.control_plane.kubeconfig)?);
        Ok(Self { place, revision: RefCell::default(), controllers })
    }

    async fn render(&self, stack: &Stack, ask: &Ask) -> Result<()> {
        let options = self.place.options()?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        stack.render_for(self.kind().format(), &self.bundle(), &options, ask).await?;
        self.push(stack, &format!("GPU Operator {}, driver {}", ask.chart, ask.driver)).await
    }

    async fn push(&self, stack: &Stack, message: &str) -> Result<()> {
        let revision = self.place.hand_over(message).await?;
        self.revision.replace(revision);
        if api(&stack.client, &kustomizations()).get_opt(SYNC).await?.is_none() {
            // Once for each cluster.
            let applier = Applier::new(&stack.client);
            for file in ["source.yaml", "sync.yaml"] {
                let mut object = read(&self.bundle().join("flux-system").join(file))?;
                self.place.adapt(&mut object);
                applier.apply(&object, NAMESPACE).await?;
            }
        }
        self.fetch(stack).await
    }

    async fn come_to_an_end(&self, stack: &Stack) -> Result<Outcome> {
        let ended = tokio::select! {
            ended = self.ended(stack) => ended,
            error = self.died() => Err(error),
        };
        match ended {
            Ok(outcome) => Ok(outcome),
            Err(error) => Err(error.context(format!("Flux shows\n{}", status(stack).await?))),
        }
    }

    /// Runs `flux reconcile helmrelease NAME --force`. Then requests the reconciliation of the
    /// Kustomization, which Flux would otherwise do later.
    async fn force(&self, stack: &Stack, name: &str) -> Result<()> {
        let (releases, token) = (api(&stack.client, &releases()), Timestamp::now().to_string());
        let patch = json!({"metadata": {"annotations": {REQUESTED: token, FORCED: token}}});
        releases.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        let forced = token.clone();
        let done = move |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                object.data["status"]["lastHandledForceAt"] == forced && ready(object) == "True"
            })
        };
        watch_until(releases, name, "the forced upgrade", LIMIT, done).await?;
        let kustomizations = api(&stack.client, &kustomizations());
        request(&kustomizations, SYNC, &token).await?;
        let done = move |object: Option<&DynamicObject>| {
            object.is_some_and(|object| {
                object.data["status"]["lastHandledReconcileAt"] == token && ready(object) == "True"
            })
        };
        watch_until(kustomizations, SYNC, "the reconciliation", LIMIT, done).await?;
        Ok(())
    }

    /// Requests the reconciliation of every release (`flux reconcile helmrelease NAME`), and waits
    /// until it is complete.
    async fn reconcile_by_hand(&self, stack: &Stack) -> Result<()> {
        let api = api(&stack.client, &releases());
        let names: Vec<String> =
            api.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        let token = Timestamp::now().to_string();
        for name in &names {
            request(&api, name, &token).await?;
        }
        for name in &names {
            let token = token.clone();
            let handled = move |object: Option<&DynamicObject>| {
                object.is_some_and(|object| {
                    object.data["status"]["lastHandledReconcileAt"] == token
                        && ready(object) == "True"
                })
            };
            watch_until(api.clone(), name, "the reconciliation", LIMIT, handled).await?;
        }
        Ok(())
    }

    /// Makes Flux fetch the bundle now, and not only after its interval.
    async fn fetch(&self, stack: &Stack) -> Result<()> {
        let sources = api(&stack.client, &self.place.kind());
        request(&sources, SYNC, &Timestamp::now().to_string()).await
    }

    /// Makes Flux fetch the bundle and its charts now. Returns for each of them, by the name of its
    /// source, whether Flux accepts its signature.
    pub(crate) async fn verified(&self, stack: &Stack) -> Result<BTreeMap<String, bool>> {
        let sources = api(&stack.client, &self.place.kind());
        let names: Vec<String> =
            sources.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
        let token = Timestamp::now().to_string();
        for name in &names {
            request(&sources, name, &token).await?;
        }
        let mut verified = BTreeMap::new();
        for name in names {
            let token = token.clone();
            let handled = move |object: Option<&DynamicObject>| {
                object.is_some_and(|object| {
                    object.data["status"]["lastHandledReconcileAt"] == token
                        && condition(object, VERIFIED).is_object()
                })
            };
            let source =
                watch_until(sources.clone(), &name, "the verification", LIMIT, handled).await?;
            let source = source.context("the source is gone")?;
            verified.insert(name, condition(&source, VERIFIED)["status"] == "True");
        }
        Ok(verified)
    }

    /// Returns what was pushed last to the registry, by digest: the charts, then the bundle.
    pub(crate) fn pushed(&self) -> Vec<String> {
        self.place.pushed()
    }

    /// Waits until Flux has finished the last commit that was handed over. Returns the result.
    async fn ended(&self, stack: &Stack) -> Result<Outcome> {
        let revision = self.revision.borrow().clone();
        let wanted = revision.clone();
        let end = move |object: Option<&DynamicObject>| {
            object.is_some_and(|object| outcome(object, &wanted).is_some())
        };
        let object =
            watch_until(api(&stack.client, &kustomizations()), SYNC, "the end", LIMIT, end).await?;
        let outcome = object
            .and_then(|object| outcome(&object, &revision))
            .context("the Kustomization is gone")?;
        if outcome == Outcome::Succeeded {
            // Releases that the commit did not change have observed it only when their charts
            // have.
            let charts = api(&stack.client, &charts());
            until("every chart of the repository to be that of the commit", LIMIT, async || {
                let charts = charts.list(&ListParams::default()).await?;
                let mut local = charts
                    .iter()
                    .filter(|chart| chart.data["spec"]["sourceRef"]["kind"] == "GitRepository");
                let is_seen = |chart: &DynamicObject| {
                    chart.data["status"]["observedSourceArtifactRevision"] == revision
                        && ready(chart) == "True"
                };
                Ok(local.all(is_seen).then_some(()))
            })
            .await?;
        }
        Ok(outcome)
    }

    /// Returns when one of the controllers has ended, which is an error.
    async fn died(&self) -> Error {
        let mut controllers = self.controllers.lock().await;
        select_all(controllers.iter_mut().map(|controller| Box::pin(controller.ended()))).await.0
    }
}

impl Deployer for Flux {
    fn kind(&self) -> Kind {
        Kind::Flux
    }

    fn bundle(&self) -> PathBuf {
        self.place.bundle()
    }

    fn deploy<'a>(&'a self, stack: &'a Stack, ask: &'a Ask) -> Told<'a> {
        self.render(stack, ask).boxed_local()
    }

    fn hand_over<'a>(&'a self, stack: &'a Stack, message: &'a str) -> Told<'a> {
        self.push(stack, message).boxed_local()
    }

    fn look<'a>(&'a self, stack: &'a Stack) -> Told<'a, bool> {
        async move { self.reconcile_by_hand(stack).await.map(|()| true) }.boxed_local()
    }

    fn end<'a>(&'a self, stack: &'a Stack) -> Told<'a, Outcome> {
        self.come_to_an_end(stack).boxed_local()
    }

    fn status<'a>(&'a self, stack: &'a Stack) -> Told<'a, String> {
        status(stack).boxed_local()
    }

    fn says<'a>(&'a self, stack: &'a Stack, hook: &'a HookRelease<'a>) -> Told<'a, String> {
        async move {
            let release = api(&stack.client, &releases()).get(hook.name()).await?;
            let condition = condition(&release, READY);
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            Ok(format!("HelmRelease Ready={} ({})", text("status"), text("reason")))
        }
        .boxed_local()
    }

    fn recover<'a>(
        &'a self,
        stack: &'a Stack,
        hook: &'a HookRelease<'a>,
    ) -> Told<'a, &'static str> {
        async move {
            tokio::select! {
                forced = self.force(stack, hook.name()) => forced?,
                error = self.died() => return Err(error),
            }
            self.wait(stack, Outcome::Succeeded).await?;
            Ok("`flux reconcile helmrelease RELEASE --force`")
        }
        .boxed_local()
    }

    fn kill(&self) -> Told<'_> {
        async move {
            let mut controllers = self.controllers.lock().await;
            let controller =
                controllers.iter_mut().find(|controller| controller.name() == HELM_CONTROLLER);
            controller.context("no helm-controller")?.restart().await
        }
        .boxed_local()
    }

    fn finish<'a>(&'a self, stack: &'a Stack) -> Told<'a, &'static str> {
        async move {
            self.wait(stack, Outcome::Succeeded).await?;
            Ok("the second deployment continues automatically when the first hook has ended")
        }
        .boxed_local()
    }
}

async fn status(stack: &Stack) -> Result<String> {
    let mut lines = String::new();
    for kind in [repositories(), artifacts(), kustomizations(), charts(), releases()] {
        for object in api(&stack.client, &kind).list(&ListParams::default()).await? {
            let condition = condition(&object, READY);
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            let (status, reason, message) = (text("status"), text("reason"), text("message"));
            writeln!(
                lines,
                "{}/{}: Ready={status} {reason}: {message}",
                kind.kind,
                object.name_any()
            )?;
        }
    }
    Ok(lines)
}

/// Starts the three controllers. They have the documented settings, except for the interval at
/// which they check dependencies.
fn controllers(directory: &Path, kubeconfig: &Path) -> Result<Vec<Process>> {
    let home = directory.join("flux");
    let (storage, temporary) = (home.join("storage"), home.join("tmp"));
    for directory in [&storage, &temporary] {
        std::fs::create_dir_all(directory)?;
    }
    let address = format!("127.0.0.1:{}", free_port()?);
    let environment = [
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("RUNTIME_NAMESPACE", NAMESPACE.to_owned()),
        ("SOURCE_CONTROLLER_LOCALHOST", address.clone()),
        ("HOME", home.display().to_string()),
        ("TMPDIR", temporary.display().to_string()),
    ];
    let source = [
        format!("--storage-path={}", storage.display()),
        format!("--storage-addr={address}"),
        format!("--storage-adv-addr={address}"),
    ];
    let dependency = "--requeue-dependency=1s".to_owned();
    // The README.md of a bundle requires this.
    let gate = "--feature-gates=CancelHealthCheckOnNewRevision=true".to_owned();
    let controllers: [(&str, Vec<String>); 3] = [
        ("source-controller", source.into()),
        ("kustomize-controller", vec![dependency.clone(), gate]),
        (HELM_CONTROLLER, vec![dependency]),
    ];
    let start = |(name, own): (&str, Vec<String>)| {
        let common = ["--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--events-addr="];
        let arguments = common.into_iter().map(str::to_owned).chain(own);
        Process::start(directory, name, &program(name)?, arguments, &environment)
    };
    controllers.into_iter().map(start).collect()
}

/// Returns how a revision ended. `None` if it has not ended, or if the status is that of another
/// revision.
fn outcome(kustomization: &DynamicObject, revision: &str) -> Option<Outcome> {
    let status = &kustomization.data["status"];
    // Flux sets the condition to Unknown before it records a revision as attempted.
    match ready(kustomization) {
        "True" if status["lastAppliedRevision"] == revision => Some(Outcome::Succeeded),
        "False" if status["lastAttemptedRevision"] == revision => Some(Outcome::Failed),
        _ => None,
    }
}

/// Returns the status of condition `Ready`, if it is that of the newest generation.
fn ready(object: &DynamicObject) -> &str {
    let is_newest =
        object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation;
    condition(object, READY)["status"].as_str().filter(|_| is_newest).unwrap_or_default()
}

/// Returns a condition, or null.
fn condition<'o>(object: &'o DynamicObject, name: &str) -> &'o Value {
    let mut conditions = object.data["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == name).unwrap_or(&Value::Null)
}

async fn request(api: &Api<DynamicObject>, name: &str, token: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {REQUESTED: token}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .with_context(|| format!("asking for {name}"))?;
    Ok(())
}

fn read(file: &Path) -> Result<Value> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(serde_yaml::from_str(&text)?)
}

fn api(client: &Client, kind: &ApiResource) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), NAMESPACE, kind)
}

fn repositories() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", "GitRepository"))
}

fn artifacts() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", "OCIRepository"))
}

fn charts() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", "HelmChart"))
}

fn kustomizations() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "kustomize.toolkit.fluxcd.io",
        "v1",
        "Kustomization",
    ))
}

fn releases() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease"))
}
