//! The plan of a bundle: releases in deployment order.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::time::TimeBudget;
use catalog::hook_chart;
use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::file_content::FileContent;
use contract::git_source;
use contract::image_reference::has_registry;
use contract::settings::Mode;
use contract::task::{Right, Task};

/// All releases of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasePlan {
    /// The releases in deployment order.
    pub releases: Vec<Release>,
    /// Notes for the user that are not errors.
    pub notes: Vec<String>,
}

/// One release: a Helm release, or a kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// The release's name, unique in the bundle.
    pub name: String,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// Names of the releases that must succeed before it.
    pub needs: Vec<String>,
    /// T: the minimum seconds that a deployer waits for one operation of it.
    pub timeout_seconds: u64,
    /// The release's kind.
    pub kind: ReleaseKind,
}

/// The kinds of releases.
#[derive(Clone, Debug, PartialEq)]
pub enum ReleaseKind {
    /// The vendor's chart.
    Upstream(UpstreamRelease),
    /// A local chart that owns CRDs.
    Crds(CrdsRelease),
    /// A local chart with other objects.
    Manifests(ManifestsRelease),
    /// A local chart with the recipe's own templates of objects.
    Templates(TemplatesRelease),
    /// A kustomization in a Git repository, which is not a Helm release.
    Kustomization(KustomizationRelease),
    /// The hook chart with one hook Job.
    Hook(Box<HookReleasePlan>),
}

impl ReleaseKind {
    /// Whether the bundle owns its objects, so that deployers take them over from other owners.
    pub fn takes_ownership(&self) -> bool {
        matches!(self, Self::Crds(_) | Self::Manifests(_) | Self::Templates(_))
    }

    /// Whether the objects stay when the bundle is uninstalled, because others need them.
    pub fn stays(&self) -> bool {
        matches!(self, Self::Crds(_) | Self::Manifests(_))
    }

    /// Returns the releases whose values files it consumes in addition to its own, in this order.
    pub fn shares(&self) -> &[String] {
        match self {
            Self::Templates(templates) => &templates.shares,
            Self::Hook(hook) => &hook.shares,
            Self::Upstream(_) | Self::Crds(_) | Self::Manifests(_) | Self::Kustomization(_) => &[],
        }
    }

    /// Returns the vendor's chart, if it is one.
    pub fn upstream(&self) -> Option<&UpstreamRelease> {
        if let Self::Upstream(upstream) = self { Some(upstream) } else { None }
    }

    /// Returns the kustomization, if it is one.
    pub fn kustomization(&self) -> Option<&KustomizationRelease> {
        if let Self::Kustomization(source) = self { Some(source) } else { None }
    }

    /// Returns the hook, if it is one.
    pub fn hook(&self) -> Option<&HookReleasePlan> {
        if let Self::Hook(hook) = self { Some(hook) } else { None }
    }

    /// Returns the kind's name, as in `bundle-info.yaml`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Upstream(_) => "upstream",
            Self::Crds(_) => "crds",
            Self::Manifests(_) | Self::Templates(_) => "manifests",
            Self::Kustomization(_) => "kustomization",
            Self::Hook(_) => "hook",
        }
    }
}

/// A vendor's chart and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamRelease {
    /// Where the chart comes from.
    pub chart: ChartOrigin,
    /// The chart's version, as its repository writes it.
    pub version: String,
    /// The values, which the component's hook release also consumes.
    pub values: Map<String, Value>,
    /// Whether to skip the chart's own `crds/`, because a release of kind `crds` owns them.
    pub skip_crds: bool,
    /// Whether the chart is known to contain no CRDs.
    pub has_no_crds: bool,
}

/// Where a vendor's chart comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartOrigin {
    /// A chart repository over HTTP.
    Repository {
        /// Its address.
        url: String,
        /// The chart's name in it.
        name: String,
    },
    /// A chart in an OCI registry: `oci://…/chart`.
    Oci(String),
    /// A packaged chart on the machine that deploys, by absolute path.
    File(String),
}

impl ChartOrigin {
    /// Returns the origin as one text, for messages.
    pub fn place(&self) -> String {
        match self {
            Self::Repository { url, name } => format!("{}/{name}", url.trim_end_matches('/')),
            Self::Oci(reference) | Self::File(reference) => reference.clone(),
        }
    }
}

/// A kustomization in a Git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KustomizationRelease {
    /// The address of the Git repository.
    pub repository: String,
    /// A tag or commit.
    pub revision: String,
    /// The directory with `kustomization.yaml`, from the repository's root.
    pub path: String,
}

impl KustomizationRelease {
    /// Returns the origin as one text, for messages.
    pub fn place(&self) -> String {
        format!("{}//{}", self.repository, self.path)
    }

    /// Describes it in one line.
    pub fn summary(&self) -> String {
        format!("the kustomization {} {}", self.place(), self.revision)
    }

    /// Whether the revision is a commit, and not a tag.
    pub fn is_commit(&self) -> bool {
        git_source::is_commit(&self.revision)
    }
}

/// CRDs of one component.
#[derive(Clone, Debug, PartialEq)]
pub struct CrdsRelease {
    /// The component that they belong to.
    pub component: String,
    /// That component's version.
    pub version: String,
    /// The CRDs in the order of their names.
    pub crds: Vec<ReleasedCrd>,
}

/// One CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedCrd {
    /// `metadata.name`.
    pub name: String,
    /// The document, with the annotations that prevent its deletion.
    pub text: FileContent,
}

/// Objects that are not part of a vendor's chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestsRelease {
    /// A description in one line.
    pub description: String,
    /// The component that they belong to; `None` if they belong to the whole bundle.
    pub component: Option<String>,
    /// The objects.
    pub objects: Vec<Value>,
    /// Whether they are in a values file that the component's hook release also consumes, so that
    /// an edit fires the hook.
    pub shared: bool,
}

/// Templates of objects that are not part of a vendor's chart.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplatesRelease {
    /// A description in one line.
    pub description: String,
    /// The component that they belong to.
    pub component: String,
    /// The release whose values file they see, if the component has a chart.
    pub shares: Vec<String>,
    /// The name of the chart that they see.
    pub chart: String,
    /// The version of the chart that they see, without `v`.
    pub chart_version: String,
    /// The values that they see, over those of `shares`.
    pub values: Map<String, Value>,
    /// The texts by file name.
    pub files: BTreeMap<String, String>,
    /// The namespaces that objects name, in addition to that of the release.
    pub namespaces: BTreeSet<String>,
    /// API group and kind of the objects, as far as the texts say them.
    pub kinds: BTreeSet<(String, String)>,
}

/// A hook release.
#[derive(Clone, Debug, PartialEq)]
pub struct HookReleasePlan {
    /// The component that it belongs to: the release of kind `upstream` with that name.
    pub component: String,
    /// The releases whose values files it consumes in addition to its own settings, in this order.
    pub shares: Vec<String>,
    /// That component's version.
    pub version: String,
    /// The tasks of its Job.
    pub tasks: Vec<Task>,
    /// The rights of its Job: exactly the rows of the task table.
    pub rights: Vec<&'static Right>,
    /// The time budget (B), and how it was computed.
    pub budget: TimeBudget,
    /// The chart's own values: everything below `rollout:`.
    pub settings: Map<String, Value>,
}

/// The note for a hook image without a registry: only a release has one that nodes can pull.
pub const IMAGE_WITHOUT_REGISTRY: &str = "the hook's image has no registry, so no node can pull it; build and push it, and render the bundle again with --hook-image REGISTRY/gpu-rollout:TAG (docs/image.md of gpu-rollout)";

impl ReleasePlan {
    /// Returns the note if a hook uses the chart's default image, and that is in no registry.
    pub fn image_note(&self) -> Option<&'static str> {
        if has_registry(hook_chart::image_repository()) {
            return None;
        }
        let mut hooks = self.releases.iter().filter_map(|release| release.kind.hook());
        hooks.any(|hook| hook.image_repository().is_none()).then_some(IMAGE_WITHOUT_REGISTRY)
    }
}

impl ReleasePlan {
    /// Returns the namespace of acceptance tests, if a hook runs any: its release has objects there.
    pub fn acceptance_namespace(&self) -> Option<&'static str> {
        let mut hooks = self.releases.iter().filter_map(|release| release.kind.hook());
        hooks.any(HookReleasePlan::runs_tests).then_some(ACCEPTANCE_NAMESPACE)
    }
}

impl HookReleasePlan {
    /// Returns the repository of the hook's image, if it is not the chart's default.
    pub fn image_repository(&self) -> Option<&str> {
        self.settings.get("image")?.get("repository")?.as_str()
    }

    /// Returns whether the hook runs acceptance tests.
    fn runs_tests(&self) -> bool {
        let decides = [Task::Steer, Task::Drive].iter().any(|task| self.tasks.contains(task));
        let upgrade = self.settings.get("upgrade");
        let tests = upgrade.and_then(|upgrade| upgrade.get("acceptance")?.as_array());
        decides && tests.is_some_and(|tests| !tests.is_empty())
    }

    /// Describes the task `hold`.
    fn holds(&self) -> &'static str {
        if self.settings.get("mode").is_some_and(|mode| mode == Mode::Steer.name()) {
            "holds every node until the hook releases it"
        } else {
            "holds every node while the operator's version changes"
        }
    }

    /// Describes the hook in one line.
    pub fn summary(&self) -> String {
        let (component, version) = (&self.component, &self.version);
        let has = |task: Task| self.tasks.contains(&task);
        let steps = [
            (
                Task::PrepareNetwork,
                format!("retains the NicClusterPolicy while {component} changes to {version}"),
            ),
            (
                Task::Preflight,
                format!("checks for problems that would stop the rollout of {component} {version}"),
            ),
            (Task::Hold, self.holds().to_owned()),
        ];
        if self.tasks.iter().copied().all(Task::is_step) {
            return steps
                .into_iter()
                .filter(|(task, _)| has(*task))
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join(", ");
        }
        if has(Task::Drive) {
            return format!(
                "upgrades the driver of {component} {version} node by node, until it is really rolled out"
            );
        }
        let waits = format!("waits until {component} {version} is really rolled out");
        if has(Task::Steer) {
            format!("decides when each node is upgraded, and {waits}")
        } else {
            waits
        }
    }
}
