//! Plans the releases of a recipe.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::catalog::PlanCatalog;
use super::chosen::{ChosenComponent, choose_components};
use super::described_catalog::DescribedCatalog;
use super::error::PlanError;
use super::hook;
use super::hook_image::HookImage;
use super::mirror::{AirGapValues, RegistryMirror};
use super::model::{
    CrdsRelease, KustomizationRelease, Release, ReleaseKind, ReleasePlan, ReleasedCrd,
    UpstreamRelease,
};
use super::{
    crds, device_plugin, manifests, mode, namespaces, node_options, notes, operator_name,
    resources, sources, time,
};
use catalog::CatalogCrd;
use catalog::model::ComponentHooks;
use contract::driver::Driver;
use contract::file_content::FileContent;
use contract::names::{DRA_DRIVER, GPU_OPERATOR};
use contract::settings::{DraRequired, Gate, HoldNodes, Mode};
use contract::task::Task;
use recipe::manifests::is_crds;
use recipe::model::{KustomizeSource, ManifestTime, NodeScheduling, Recipe};

/// Suffix of the release of a component's CRDs.
const CRDS: &str = "-crds";
/// Helm's limit for the length of release names.
const LONGEST_NAME: usize = 53;

/// Options for a plan in addition to the recipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Chart repositories: address by name in the catalog.
    pub chart_repositories: BTreeMap<String, String>,
    /// The hook's image.
    pub hook_image: Option<HookImage>,
    /// Registries that replace other registries.
    pub registry_mirrors: Vec<RegistryMirror>,
    /// Names of image pull Secrets, in the namespace of each release.
    pub pull_secrets: Vec<String>,
    /// Node selectors and tolerations to add to those of all components.
    pub node_scheduling: NodeScheduling,
}

/// Plans the releases of a recipe.
///
/// # Errors
/// The recipe cannot be deployed, or contradicts itself; see [`PlanError`].
pub fn plan(
    recipe: &Recipe,
    catalog: &impl PlanCatalog,
    options: &PlanOptions,
) -> Result<ReleasePlan, PlanError> {
    check(recipe)?;
    let catalog = &DescribedCatalog::new(recipe, catalog);
    let mut chosen = choose_components(recipe, catalog)?;
    let unscheduled = node_options::add(&options.node_scheduling, &mut chosen);
    check_repositories(catalog, options)?;
    let mut planner = ReleasePlanner {
        recipe,
        catalog,
        options,
        chosen: &chosen,
        owners: BTreeMap::new(),
        releases: Vec::new(),
    };
    planner.namespaces();
    for choice in &chosen {
        planner.component(choice)?;
    }
    hook::keep_one_dashboard(&mut planner.releases);
    check_names(&planner.releases)?;
    let mut plan =
        ReleasePlan { releases: planner.releases, notes: notes::release_notes(recipe, &chosen) };
    plan.notes.extend(unscheduled);
    AirGapValues { mirrors: &options.registry_mirrors, pull_secrets: &options.pull_secrets }
        .apply(&mut plan);
    let image = plan.image_note().map(str::to_owned);
    plan.notes.extend(image);
    Ok(plan)
}

/// Checks that do not need the catalog.
fn check(recipe: &Recipe) -> Result<(), PlanError> {
    for driver in recipe.rollout.drivers() {
        let Gate::Settled = driver.gate;
        if driver.policy.wait_for_completion.as_ref().is_some_and(time::is_endless) {
            return Err(PlanError::EndlessWait(driver.key));
        }
    }
    let has_dra =
        recipe.components.iter().any(|component| component.enabled && component.name == DRA_DRIVER);
    if recipe.rollout.dra.required == DraRequired::True && !has_dra {
        return Err(PlanError::DraMissing);
    }
    Ok(())
}

/// Checks the length of release names, and that they are unique.
fn check_names(releases: &[Release]) -> Result<(), PlanError> {
    for (index, release) in releases.iter().enumerate() {
        if release.name.len() > LONGEST_NAME {
            return Err(PlanError::LongName(release.name.clone()));
        }
        if releases[..index].iter().any(|earlier| earlier.name == release.name) {
            return Err(PlanError::NameTwice(release.name.clone()));
        }
    }
    Ok(())
}

/// Checks that the catalog has each repository of the options. The recipe need not use it, because
/// mirrors are the same for all recipes.
fn check_repositories(catalog: &impl PlanCatalog, options: &PlanOptions) -> Result<(), PlanError> {
    if options.chart_repositories.is_empty() {
        return Ok(());
    }
    let known = catalog.repositories();
    match options.chart_repositories.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(PlanError::UnknownRepository {
            name: name.clone(),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
        None => Ok(()),
    }
}

/// The operator of a hook's driver.
struct HookOperator<'a> {
    /// Its component.
    component: &'a str,
    /// That component, if the recipe deploys it.
    operator: Option<&'a ChosenComponent<'a>>,
}

/// Returns the release of a component that is a kustomization.
fn kustomization(
    choice: &ChosenComponent<'_>,
    source: &KustomizeSource,
    needs: Vec<String>,
) -> Release {
    Release {
        name: choice.name().to_owned(),
        namespace: choice.namespace.to_owned(),
        needs,
        timeout_seconds: time::UPSTREAM_TIMEOUT_SECONDS,
        kind: ReleaseKind::Kustomization(KustomizationRelease {
            repository: source.repository.trim_end_matches('/').to_owned(),
            revision: source.revision.clone(),
            path: source.path.clone(),
        }),
    }
}

/// Returns the hook release if it waits for the rollout, and its time budget in seconds.
fn rollout_wait(release: &Release) -> Option<(&str, u64)> {
    let hook = release.kind.hook().filter(|hook| hook.tasks.contains(&Task::Settle))?;
    Some((release.name.as_str(), hook.budget.seconds))
}

/// A plan under construction.
struct ReleasePlanner<'a, C> {
    recipe: &'a Recipe,
    catalog: &'a C,
    options: &'a PlanOptions,
    chosen: &'a [ChosenComponent<'a>],
    /// The owner of each CRD: its text, the component, the release.
    owners: BTreeMap<String, (FileContent, String, String)>,
    releases: Vec<Release>,
}

impl<'a, C: PlanCatalog> ReleasePlanner<'a, C> {
    fn namespaces(&mut self) {
        let levels = namespaces::levels(self.recipe, self.chosen);
        self.releases.extend(namespaces::release(&levels));
    }

    /// Adds the releases of a component: CRDs, configurations of the device plugin, the hook
    /// before, the manifests before, the vendor's chart, custom resources, the manifests after, the
    /// hook after.
    fn component(&mut self, choice: &'a ChosenComponent<'a>) -> Result<(), PlanError> {
        let name = choice.name();
        let mut needs: Vec<String> = self
            .releases
            .iter()
            .filter(|release| release.name == namespaces::RELEASE)
            .map(|release| release.name.clone())
            .collect();
        let config = device_plugin::release(choice.asked, choice.namespace, &needs)?;
        let crd_releases = self.crds(choice, &needs)?;
        needs.extend(crd_releases);
        needs.extend(config.iter().map(|config| config.name.clone()));
        for earlier in &choice.known.after {
            needs.extend(self.last_of(earlier));
        }
        if let Some(source) = &choice.asked.kustomize {
            // Flux cannot make a kustomization wait for Helm releases. It is retried until its
            // namespace exists.
            needs.retain(|need| need != namespaces::RELEASE);
            self.releases.push(kustomization(choice, source, needs));
            return Ok(());
        }
        if !choice.has_chart() {
            self.releases.extend(manifests::release(choice, ManifestTime::After, &needs));
            return Ok(());
        }
        let resources = resources::release(choice, &self.recipe.rollout)?;
        let before = manifests::release(choice, ManifestTime::Before, &[]);
        let last = resources.as_ref().map_or(name, |release| &release.name).to_owned();
        let after = manifests::release(choice, ManifestTime::After, &[last]);
        let hooks = self.tasks(choice, resources.as_ref().and_then(resources::policy));
        let local = config.iter().chain(&resources).chain(&before).chain(&after);
        let local = local.map(|release| release.name.clone());
        let shares: Vec<String> = std::iter::once(name.to_owned()).chain(local).collect();
        self.releases.extend(config);
        let carrier = resources.as_ref().and_then(resources::policy);
        let post = (!hooks.post.is_empty())
            .then(|| {
                self.hook(
                    choice,
                    (hook::POST, &hooks.post),
                    shares.clone(),
                    (&shares, None),
                    carrier,
                )
            })
            .transpose()?;
        if !hooks.pre.is_empty() {
            let hook = self.hook(
                choice,
                (hook::PRE, &hooks.pre),
                needs.clone(),
                (&shares, post.as_ref()),
                carrier,
            )?;
            needs.push(hook.name.clone());
            self.releases.push(hook);
        }
        if let Some(before) = before {
            let name = before.name.clone();
            self.releases.push(Release { needs: needs.clone(), ..before });
            needs.push(name);
        }
        self.releases.push(self.upstream(choice, needs));
        self.releases.extend(resources);
        self.releases.extend(after);
        self.releases.extend(post);
        Ok(())
    }

    /// Returns the release of the vendor's chart.
    fn upstream(&self, choice: &ChosenComponent<'_>, needs: Vec<String>) -> Release {
        let repositories = &self.options.chart_repositories;
        Release {
            name: choice.name().to_owned(),
            namespace: choice.namespace.to_owned(),
            needs,
            timeout_seconds: time::UPSTREAM_TIMEOUT_SECONDS,
            kind: ReleaseKind::Upstream(UpstreamRelease {
                chart: sources::chart(choice.known, choice.version, repositories),
                version: choice.version.to_owned(),
                values: choice.values.clone(),
                skip_crds: !self.catalog_crds(choice).is_empty(),
                has_no_crds: choice.details.is_some_and(|details| details.has_no_crds),
            }),
        }
    }

    /// Returns the CRD files of the catalog for a component.
    fn catalog_crds(&self, choice: &'a ChosenComponent<'a>) -> Vec<CatalogCrd<'a>> {
        let present: Vec<&str> =
            self.chosen.iter().map(|choice| choice.known.name.as_str()).collect();
        let files = choice
            .details
            .map(|details| self.catalog.crds(choice.known, details, &choice.values, &present));
        files.unwrap_or_default()
    }

    /// Returns the files with CRDs of a component, by name: those of the catalog, and those of the
    /// recipe's manifests.
    fn crd_files(&self, choice: &'a ChosenComponent<'a>) -> Vec<(&'a str, &'a str)> {
        let own = choice.asked.manifests.iter().filter(|(_, file)| is_crds(&file.template));
        let own = own.map(|(name, file)| (name.as_str(), file.template.as_str()));
        let known = self.catalog_crds(choice).into_iter();
        known.map(|file| (file.name, file.text)).chain(own).collect()
    }

    /// Adds a release with the component's CRDs that have no owner yet. Returns all releases that
    /// own CRDs of this component.
    fn crds(
        &mut self,
        choice: &'a ChosenComponent<'a>,
        needs: &[String],
    ) -> Result<Vec<String>, PlanError> {
        let component = &choice.known.name;
        let release = format!("{component}{CRDS}");
        let mut needed = Vec::new();
        let mut owned: Vec<ReleasedCrd> = Vec::new();
        for (file, text) in self.crd_files(choice) {
            let error = |reason: String| PlanError::CrdFile {
                component: component.clone(),
                file: file.to_owned(),
                reason,
            };
            for crd in crds::read(text).map_err(error)? {
                let (known_text, first, owner_release) = self
                    .owners
                    .entry(crd.name.clone())
                    .or_insert_with(|| (crd.text.clone(), component.clone(), release.clone()));
                if *known_text != crd.text {
                    return Err(PlanError::CrdConflict {
                        crd: crd.name,
                        first: first.clone(),
                        second: component.clone(),
                    });
                }
                needed.push(owner_release.clone());
                if first == component {
                    owned.push(crd);
                }
            }
        }
        needed.sort();
        needed.dedup();
        if !owned.is_empty() {
            owned.sort_by(|first, second| first.name.cmp(&second.name));
            owned.dedup();
            self.releases.push(Release {
                name: release,
                namespace: choice.namespace.to_owned(),
                needs: needs.to_vec(),
                timeout_seconds: time::LOCAL_TIMEOUT_SECONDS,
                kind: ReleaseKind::Crds(CrdsRelease {
                    component: component.clone(),
                    version: choice.version.to_owned(),
                    crds: owned,
                }),
            });
        }
        Ok(needed)
    }

    /// Returns the necessary tasks, so that a Job gets no unnecessary rights. Without a DRA driver,
    /// there is nothing to re-roll. Without configurations, a device plugin cannot miss a change of
    /// them. The stand-alone device plugin has no operator of its own: if the recipe has the GPU
    /// Operator, the hook waits for that operator's driver, and the plugin must not be older than
    /// it.
    ///
    /// The hooks of the driver's own operator do the tasks of a mode.
    fn tasks(
        &self,
        choice: &ChosenComponent<'_>,
        resource: Option<&Map<String, Value>>,
    ) -> ComponentHooks {
        let has = |name: &str| self.find(name).is_some();
        let stands_alone = choice.name() == device_plugin::STAND_ALONE;
        let mode = mode::in_force(
            &self.recipe.rollout,
            choice.hooks().driver,
            Some(&choice.values),
            resource,
        );
        let is_wanted = |task: Task| match task {
            Task::Preflight | Task::Wake | Task::Steer | Task::Drive => {
                mode.tasks().contains(&task)
            }
            Task::Hold => {
                mode.decides() && mode.tasks().contains(&task)
                    || self.holds_before_upgrade(mode, choice.hooks().driver)
            }
            Task::Settle => !stands_alone || has(GPU_OPERATOR),
            Task::Reroll => has(DRA_DRIVER),
            Task::RestartPlugins => {
                device_plugin::is_configured(choice.name(), &choice.values)
                    || stands_alone && has(GPU_OPERATOR)
            }
            Task::PrepareNetwork => true,
        };
        let wanted =
            |tasks: &[Task]| tasks.iter().copied().filter(|task| is_wanted(*task)).collect();
        let hooks = choice.hooks();
        ComponentHooks { pre: wanted(&hooks.pre), post: wanted(&hooks.post), driver: hooks.driver }
    }

    /// Whether mode `assist` may hold nodes while the operator is upgraded. It is unknown whether
    /// the Network Operator needs that.
    fn holds_before_upgrade(&self, mode: Mode, driver: Driver) -> bool {
        mode == Mode::Assist
            && driver == Driver::Gpu
            && self.recipe.rollout.gpu_driver.operator_upgrade.hold != HoldNodes::Never
    }

    /// Returns a hook release of the component, with the values that it shares and the release that
    /// waits for the rollout.
    fn hook(
        &self,
        choice: &ChosenComponent<'_>,
        (suffix, tasks): (&str, &[Task]),
        needs: Vec<String>,
        (shares, waiting): (&[String], Option<&Release>),
        resource: Option<&Map<String, Value>>,
    ) -> Result<Release, PlanError> {
        let driver = choice.hooks().driver;
        let HookOperator { component, operator } = self.operator_of(choice);
        let values = operator.map(|operator| &operator.values);
        let carrier = resource.or(values);
        let place = if resource.is_some() { "customResources.NicClusterPolicy" } else { "values" };
        let mode = mode::in_force(&self.recipe.rollout, driver, values, resource);
        let budget = time::budget(
            self.recipe,
            time::DriverPace { driver, component, place, carrier, mode },
            tasks,
        )?;
        let timeout_seconds = budget.timeout_seconds();
        let mut hook = hook::plan_hook(hook::HookParts {
            recipe: self.recipe,
            component: choice.name(),
            version: choice.version,
            driver,
            mode,
            tasks,
            budget,
            shares: shares.to_vec(),
            waits: waiting.and_then(rollout_wait),
            operator_namespace: self.operator_namespace(choice),
            operator_deployment: (driver == Driver::Ofed)
                .then(|| operator_name::of_network_operator(choice.name(), &choice.values))
                .flatten(),
            dra_namespace: tasks
                .contains(&Task::Reroll)
                .then(|| self.find(DRA_DRIVER).map(|dra| dra.namespace))
                .flatten(),
            image: self.options.hook_image.as_ref(),
        });
        let pod = node_options::of_hook(
            &self.options.node_scheduling.system,
            self.recipe.cluster.platform,
        );
        hook.settings.extend(pod.map(|pod| ("pod".to_owned(), pod)));
        Ok(Release {
            name: format!("{}{suffix}", choice.name()),
            namespace: choice.namespace.to_owned(),
            needs,
            timeout_seconds,
            kind: ReleaseKind::Hook(Box::new(hook)),
        })
    }

    /// Returns the recipe's component of this name.
    fn find(&self, name: &str) -> Option<&ChosenComponent<'_>> {
        self.chosen.iter().find(|choice| choice.name() == name)
    }

    /// Returns the operator that a hook of the component waits for.
    fn operator_of<'c>(&'c self, choice: &'c ChosenComponent<'_>) -> HookOperator<'c> {
        let (component, operator) = match choice.hooks().driver {
            Driver::Gpu => (GPU_OPERATOR, self.find(GPU_OPERATOR)),
            Driver::DaemonSet => (choice.name(), None),
            Driver::Ofed => (choice.name(), Some(choice)),
        };
        HookOperator { component, operator }
    }

    /// Returns the namespace of that operator. The settings of a hook belong to its component, even
    /// if other components deploy operator and DRA driver.
    fn operator_namespace<'c>(&'c self, choice: &'c ChosenComponent<'_>) -> &'c str {
        let HookOperator { component, operator } = self.operator_of(choice);
        match operator {
            Some(operator) => operator.namespace,
            None => self
                .catalog
                .component(component)
                .map_or(component, |operator| operator.namespace.as_str()),
        }
    }

    /// Returns the last release of `component`, which must succeed before any release that comes
    /// after it; `None` if the recipe does not have the component.
    fn last_of(&self, component: &str) -> Option<String> {
        let last = [hook::POST, manifests::AFTER, resources::SUFFIX, "", CRDS];
        last.iter()
            .map(|suffix| format!("{component}{suffix}"))
            .find(|name| self.releases.iter().any(|release| release.name == *name))
    }
}
