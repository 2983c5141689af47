//! Writes the Argo CD Applications of a bundle. All deployers that create Applications share this
//! module. They differ only in where names, repository and cluster come from ([`ApplicationForm`]).

pub mod application_form;
pub mod project;
pub mod readme;

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{Value, context};
use serde::Serialize;

pub use application_form::ApplicationForm;

use super::file::BundleFile;
use super::layout::{SETTINGS, VALUES, content, folders, hook_of, values_of};
use super::template::{RenderError, TemplateSet};
use super::template_language::WrittenText;
use super::{BundleSource, DeployerInput};
use contract::names::FIELD_MANAGER;
use release::model::{ChartOrigin, ReleaseKind, UpstreamRelease};
use release::{Release, ReleasePlan};

/// The file with the health check that makes waves of Applications wait.
pub const HEALTH: &str = "argocd-cm-health.yaml";
/// The text of the health check.
pub const HEALTH_TEXT: &str = include_str!("../../../templates/shared/argocd-cm-health.yaml");
/// The common part of the READMEs: name and text.
pub const NOTES: (&str, &str) =
    ("application-notes.md.j2", include_str!("../../../templates/shared/application-notes.md.j2"));
/// The READMEs' part about finalizers.
pub const FINALIZERS: (&str, &str) = (
    "application-finalizers.md.j2",
    include_str!("../../../templates/shared/application-finalizers.md.j2"),
);
/// The READMEs' part about taking over a stack from Helm.
pub const TAKEOVER: (&str, &str) = (
    "application-takeover.md.j2",
    include_str!("../../../templates/shared/application-takeover.md.j2"),
);
/// The templates of an Application: as YAML, and for a Helm chart.
const APPLICATION: [&str; 2] = ["application.yaml.j2", "application.tpl.yaml.j2"];
/// The templates of the project: as YAML, and for a Helm chart.
const PROJECT: [&str; 2] = ["application-project.yaml.j2", "application-project.tpl.yaml.j2"];
const SOURCES: &[(&str, &str)] = &[
    (APPLICATION[0], include_str!("../../../templates/shared/application.yaml.j2")),
    (APPLICATION[1], include_str!("../../../templates/shared/application.yaml.j2")),
    (PROJECT[0], include_str!("../../../templates/shared/application-project.yaml.j2")),
    (PROJECT[1], include_str!("../../../templates/shared/application-project.yaml.j2")),
];

/// How often Argo CD retries, and how long it waits between tries.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RetryPolicy {
    /// Number of retries.
    pub limit: u64,
    /// The first pause. Each further pause is twice as long.
    pub first: &'static str,
    /// The longest pause.
    pub longest: &'static str,
    /// The sum of all pauses in seconds.
    #[serde(skip)]
    pub pauses: u64,
}

/// Retries of hooks. Each try may take the hook's whole time budget. Retries are necessary, because
/// waves have no effect without a root Application.
pub const HOOK_RETRY: RetryPolicy =
    RetryPolicy { limit: 2, first: "1m", longest: "10m", pauses: 180 };
/// Retries of all other releases. They are cheap, and fail while a namespace, a CRD or a webhook is
/// missing.
pub const RETRY: RetryPolicy = RetryPolicy { limit: 5, first: "30s", longest: "5m", pauses: 750 };

/// Checks that the revision does not depend on the content of the bundle, like a commit and a
/// digest: the Applications are part of the bundle and name the revision, so it must be known
/// before the bundle is in its repository.
///
/// # Errors
/// The revision is a commit or a digest.
pub fn check_revision(source: &BundleSource, deployer: &'static str) -> Result<(), RenderError> {
    let (what, name, hint) = if source.is_commit() {
        ("commit", "name", "name a tag, and set it after the commit of the bundle: --revision TAG")
    } else if source.is_digest() {
        ("artifact", "digest", "name a tag, and push the bundle with this tag: --revision TAG")
    } else {
        return Ok(());
    };
    Err(RenderError::unable(
        deployer,
        format!(
            "reads the bundle from the revision that the bundle names, and the {what} `{}` cannot contain its own {name}",
            source.revision
        ),
        hint,
    ))
}

/// Writes Applications and their project.
pub struct ApplicationWriter<'a> {
    templates: TemplateSet,
    form: ApplicationForm<'a>,
    input: DeployerInput<'a>,
}

impl<'a> ApplicationWriter<'a> {
    /// Creates a writer for the bundle of `input`, in this form.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn new(form: ApplicationForm<'a>, input: DeployerInput<'a>) -> Result<Self, RenderError> {
        Ok(Self { templates: TemplateSet::new(SOURCES)?, form, input })
    }

    /// Returns one file for each release, `<directory>/NNN-<release>.yaml`. Errors name `deployer`.
    ///
    /// # Errors
    /// A chart is only a local file; otherwise see [`RenderError`].
    pub fn files(
        &self,
        directory: &str,
        deployer: &'static str,
    ) -> Result<Vec<BundleFile>, RenderError> {
        let waves = waves(self.input.plan);
        folders(self.input.plan)
            .map(|(folder, release)| {
                let context = self.context(&folder, release, &waves, deployer)?;
                Ok(BundleFile::text(
                    format!("{directory}/{folder}.yaml"),
                    self.templates.render(self.form.template(APPLICATION), context)?,
                ))
            })
            .collect()
    }

    /// Returns the project that the Applications belong to.
    ///
    /// # Errors
    /// See [`RenderError`].
    pub fn project(&self) -> Result<String, RenderError> {
        self.templates
            .render(self.form.template(PROJECT), project::project_context(self.form, self.input))
    }

    /// Returns the template context of one Application.
    fn context(
        &self,
        folder: &str,
        release: &Release,
        waves: &BTreeMap<&str, usize>,
        deployer: &'static str,
    ) -> Result<Value, RenderError> {
        let (form, plan) = (self.form, self.input.plan);
        let hook = hook_of(plan, &release.name);
        let inlined = release.kind.upstream().filter(|_| !form.has_values_source());
        let chart = match &release.kind {
            ReleaseKind::Upstream(upstream) => {
                Some(chart_context(form, upstream, deployer, &release.name)?)
            }
            ReleaseKind::Crds(_)
            | ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Hook(_) => None,
        };
        let kustomization = release.kind.kustomization().map(|source| {
            context! {
                repository => form.text(&source.repository),
                revision => form.text(&source.revision),
                path => form.text(&source.path),
            }
        });
        Ok(context! {
            comment => content(release),
            name => form.name(&release.name),
            control_namespace => form.control_namespace(),
            wave => waves[release.name.as_str()].to_string(),
            bundle => form.bundle(),
            kind => release.kind.name(),
            // The later hook that waits for the workloads of this release.
            awaited_by => hook.filter(|hook| waves.get(hook) > waves.get(release.name.as_str())),
            // Whether a hook may write into its objects.
            shared => hook.is_some(),
            project => form.project(),
            server => form.server(),
            release => &release.name,
            namespace => &release.namespace,
            chart,
            kustomization,
            // The bundle's repository.
            repository => form.repository(),
            revision => form.revision(),
            path => form.path(folder),
            value_files => self.value_files(folder, release),
            // The values that Argo CD cannot read from the bundle's repository, and their file.
            // They are a text (`values`) and not an object (`valuesObject`). Argo CD stores what it
            // has compared with a JSON merge patch, which drops each `null`, so an object with one
            // would always differ from it. And server-side apply would merge an object into the
            // one before it.
            values => Serde(inlined.map(|upstream| &upstream.values)),
            values_file => format!("{folder}/{VALUES}"),
            sync_options => sync_options(release),
            retry => Serde(retry(release)),
            // The ConfigMap that the hook writes its run record into.
            record => release.kind.hook().map(|_| format!("{}-record", release.name)),
            field_manager => FIELD_MANAGER,
        })
    }

    /// Returns the values files of the release's chart, in the form of the deployer.
    fn value_files(&self, folder: &str, release: &Release) -> Vec<WrittenText> {
        let form = self.form;
        let shared = || {
            let files = values_of(self.input.plan, release);
            files.into_iter().map(|file| form.text(&format!("../{file}")))
        };
        match &release.kind {
            ReleaseKind::Upstream(_) => vec![form.values(&format!("{folder}/{VALUES}"))],
            ReleaseKind::Hook(_) => shared().chain([form.text(SETTINGS)]).collect(),
            ReleaseKind::Templates(_) => shared().collect(),
            ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) | ReleaseKind::Kustomization(_) => {
                Vec::new()
            }
        }
    }
}

fn sync_options(release: &Release) -> Vec<&'static str> {
    // Another Application creates the CRDs, and Argo CD may not know them yet.
    let needs_crds = match &release.kind {
        ReleaseKind::Upstream(upstream) => upstream.skip_crds,
        ReleaseKind::Manifests(manifests) => manifests.component.is_some(),
        ReleaseKind::Templates(_) | ReleaseKind::Kustomization(_) => true,
        ReleaseKind::Crds(_) | ReleaseKind::Hook(_) => false,
    };
    let options = ["ServerSideApply=true"].into_iter();
    options.chain(needs_crds.then_some("SkipDryRunOnMissingResource=true")).collect()
}

fn retry(release: &Release) -> RetryPolicy {
    if matches!(release.kind, ReleaseKind::Hook(_)) { HOOK_RETRY } else { RETRY }
}

/// Returns a vendor's chart in Argo CD's form: an OCI registry has no `oci://`, and is separate
/// from the chart's name.
fn chart_context(
    form: ApplicationForm<'_>,
    upstream: &UpstreamRelease,
    deployer: &'static str,
    release: &str,
) -> Result<Value, RenderError> {
    let (repository, name) = address(&upstream.chart).ok_or_else(|| {
        RenderError::unable(
            deployer,
            format!("runs in the cluster, and cannot read the chart of `{release}` from a local directory"),
            "name a repository that the cluster can reach: --chart-repository NAME=https://… or oci://…",
        )
    })?;
    Ok(context! {
        repository => form.text(repository),
        name => form.text(name),
        version => form.text(&upstream.version),
        skip_crds => upstream.skip_crds,
    })
}

/// Returns the repository and the chart's name in it; `None` for a chart that is a local file.
fn address(chart: &ChartOrigin) -> Option<(&str, &str)> {
    match chart {
        ChartOrigin::Repository { url, name } => Some((url, name)),
        ChartOrigin::Oci(reference) => {
            reference.strip_prefix("oci://").unwrap_or(reference).rsplit_once('/')
        }
        ChartOrigin::File(_) => None,
    }
}

/// Returns the wave of each release: one more than the latest wave of the releases that it needs.
/// Kustomizations are not in the first wave, which creates the namespaces.
pub fn waves(plan: &ReleasePlan) -> BTreeMap<&str, usize> {
    let mut waves = longest(plan, |_| 1);
    for release in plan.releases.iter().filter(|one| one.kind.kustomization().is_some()) {
        waves.entry(&release.name).and_modify(|wave| *wave = (*wave).max(1));
    }
    waves
}

/// Returns for each release the sum of `weight` along the heaviest chain of releases before it.
fn longest<N: Copy + Default + Ord + std::ops::Add<Output = N>>(
    plan: &ReleasePlan,
    weight: impl Fn(&Release) -> N,
) -> BTreeMap<&str, N> {
    let mut sums: BTreeMap<&str, N> = BTreeMap::new();
    let mut ends: BTreeMap<&str, N> = BTreeMap::new();
    // In a plan, a release comes after those that it needs.
    for release in &plan.releases {
        let sum = release
            .needs
            .iter()
            .filter_map(|need| ends.get(need.as_str()).copied())
            .max()
            .unwrap_or_default();
        sums.insert(&release.name, sum);
        ends.insert(&release.name, sum + weight(release));
    }
    sums
}

/// Returns the longest sync of one release in seconds, retries included.
fn sync_seconds(release: &Release) -> u64 {
    let retry = retry(release);
    (retry.limit + 1) * release.timeout_seconds + retry.pauses
}

/// Returns the longest sync of any Application of the plan in seconds.
pub fn longest_sync_seconds(plan: &ReleasePlan) -> u64 {
    plan.releases.iter().map(sync_seconds).max().unwrap_or_default()
}

/// Returns the longest time for all waves, one after another, in seconds.
pub fn all_waves_seconds(plan: &ReleasePlan) -> u64 {
    let sums = longest(plan, sync_seconds);
    plan.releases
        .iter()
        .map(|release| sums[release.name.as_str()] + sync_seconds(release))
        .max()
        .unwrap_or_default()
}
