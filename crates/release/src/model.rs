//! What a plan says: releases in the order in which they are deployed.

use serde_json::{Map, Value};

use super::time::TimeBudget;
use contract::settings::Mode;
use contract::task::{Right, Task};

/// All releases of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasePlan {
    /// In the order in which they are deployed.
    pub releases: Vec<Release>,
    /// What the user should know and no error says.
    pub notes: Vec<String>,
}

/// One Helm release.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// Its name, unique in the bundle.
    pub name: String,
    /// Where it is installed.
    pub namespace: String,
    /// Releases that must have succeeded before it, by name.
    pub needs: Vec<String>,
    /// T: how many seconds a deployer waits for one operation of it, at least.
    pub timeout_seconds: u64,
    /// What it is.
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
    /// The hook chart with one hook Job.
    Hook(Box<HookReleasePlan>),
}

impl ReleaseKind {
    /// Whether its objects are the bundle's own, whoever made them before: deployers take them over.
    pub fn takes_ownership(&self) -> bool {
        matches!(self, Self::Crds(_) | Self::Manifests(_))
    }

    /// Returns the vendor's chart, if it is one.
    pub fn upstream(&self) -> Option<&UpstreamRelease> {
        if let Self::Upstream(upstream) = self { Some(upstream) } else { None }
    }

    /// Returns the hook, if it is one.
    pub fn hook(&self) -> Option<&HookReleasePlan> {
        if let Self::Hook(hook) = self { Some(hook) } else { None }
    }

    /// The kind's name, as in `bundle-info.yaml`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Upstream(_) => "upstream",
            Self::Crds(_) => "crds",
            Self::Manifests(_) => "manifests",
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
    /// Values, which the component's hook release consumes as well.
    pub values: Map<String, Value>,
    /// Whether the chart's own `crds/` are left out because a release of kind `crds` owns them.
    pub skip_crds: bool,
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
    /// A packed chart on the machine that deploys, by absolute path.
    File(String),
}

impl ChartOrigin {
    /// The place in one text, for people.
    pub fn place(&self) -> String {
        match self {
            Self::Repository { url, name } => format!("{}/{name}", url.trim_end_matches('/')),
            Self::Oci(reference) | Self::File(reference) => reference.clone(),
        }
    }
}

/// CRDs of one component.
#[derive(Clone, Debug, PartialEq)]
pub struct CrdsRelease {
    /// The component that brings them.
    pub component: String,
    /// That component's version.
    pub version: String,
    /// In the order of their names.
    pub crds: Vec<ReleasedCrd>,
}

/// One CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleasedCrd {
    /// `metadata.name`.
    pub name: String,
    /// The document, with the annotations that keep it.
    pub text: String,
}

/// Objects that no vendor's chart brings.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestsRelease {
    /// One line for people.
    pub description: String,
    /// The component that they belong to; `None`: to the whole bundle.
    pub component: Option<String>,
    /// The objects.
    pub objects: Vec<Value>,
    /// Whether they stand in a values file, which the component's hook release consumes as well, so that an edit fires it.
    pub shared: bool,
}

/// A hook release.
#[derive(Clone, Debug, PartialEq)]
pub struct HookReleasePlan {
    /// The component that it stands for: the release of kind `upstream` of that name.
    pub component: String,
    /// The releases whose values files it consumes beside its own settings, in this order.
    pub shares: Vec<String>,
    /// That component's version.
    pub version: String,
    /// What its Job does.
    pub tasks: Vec<Task>,
    /// What its Job may do: exactly the rows of the task table.
    pub rights: Vec<&'static Right>,
    /// B, and how it came about.
    pub budget: TimeBudget,
    /// The chart's own values: everything below `rollout:`.
    pub settings: Map<String, Value>,
}

/// What is said where no registry is named for the hook's image: its chart cannot know one.
pub const IMAGE_WITHOUT_REGISTRY: &str = "the hook's image has no registry, so no node can pull it: build it, push it, and render with --hook-image REGISTRY/gpu-rollout:TAG (docs/image.md of gpu-rollout)";

impl ReleasePlan {
    /// What to say if a hook's image is the chart's own, which stands in no registry.
    pub fn image_note(&self) -> Option<&'static str> {
        let is_unset = |hook: &HookReleasePlan| {
            hook.settings.get("image").and_then(|image| image.get("repository")).is_none()
        };
        let hooks = self.releases.iter().filter_map(|release| release.kind.hook());
        hooks.into_iter().any(is_unset).then_some(IMAGE_WITHOUT_REGISTRY)
    }
}

impl HookReleasePlan {
    /// What task `hold` does, for people.
    fn holds(&self) -> &'static str {
        if self.settings.get("mode").is_some_and(|mode| mode == Mode::Steer.name()) {
            "holds every node until it is its turn"
        } else {
            "holds every node while the operator's version changes"
        }
    }

    /// What it is for, in one line for people.
    pub fn summary(&self) -> String {
        let (component, version) = (&self.component, &self.version);
        let has = |task: Task| self.tasks.contains(&task);
        let steps = [
            (
                Task::PrepareNetwork,
                format!("keeps the NicClusterPolicy while {component} changes to {version}"),
            ),
            (
                Task::Preflight,
                format!("looks for what would stop {component} {version} from being rolled out"),
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
                "upgrades the driver of {component} {version} node by node, until it has really been rolled out"
            );
        }
        let waits = format!("waits until {component} {version} has really been rolled out");
        if has(Task::Steer) { format!("decides which node goes when, and {waits}") } else { waits }
    }
}
