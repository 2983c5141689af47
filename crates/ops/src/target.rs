//! The targets of operator commands: a hook release, or a driver that is rolled out without one.

use contract::driver::Driver;
use contract::settings::{DraSettings, Mode, Reroll, Settings};
use contract::task::Task;
use kube_io::releases::{HookRelease, ReleaseDeployer};

use super::find_rollouts::UnreadableHooks;

/// One rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutTarget {
    /// The settings of its hook.
    pub settings: Settings,
    /// `namespace/name` of the hook release; `None`: there is none, and the settings are the hook's
    /// defaults.
    pub release: Option<String>,
    /// Who deployed the release; `None`: unknown.
    pub deployer: Option<ReleaseDeployer>,
}

/// Hook releases, sorted by their tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SortedReleases {
    /// The rollouts of the releases whose hook watches the cluster.
    pub(crate) targets: Vec<RolloutTarget>,
    /// The settings of releases that only run before the operator.
    pub(crate) steps: Vec<Settings>,
    /// The releases that cannot be read.
    pub(crate) unreadable: Vec<UnreadableHooks>,
}

/// Sorts hook releases.
pub(crate) fn sort_releases(releases: Vec<HookRelease>) -> SortedReleases {
    let SortedReleases { mut targets, mut steps, mut unreadable } = SortedReleases::default();
    for HookRelease { trigger, settings, deployer } in releases {
        match settings {
            Ok(settings) if settings.watches() => {
                let release = Some(format!("{}/{}", settings.namespace, settings.release));
                targets.push(RolloutTarget { settings: *settings, release, deployer });
            }
            // The release after the operator is its rollout.
            Ok(settings) => steps.push(*settings),
            Err(error) => unreadable.push(UnreadableHooks::Release { trigger, error }),
        }
    }
    // Network before GPU, and releases that settle a driver before those that only replace plugins.
    targets.sort_by_key(|target| {
        let settings = &target.settings;
        (
            !settings.has(Task::Settle),
            settings.driver != Driver::Ofed,
            settings.driver,
            target.release.clone(),
        )
    });
    SortedReleases { targets, steps, unreadable }
}

/// Creates the target for a driver whose operator has no hook release, with the settings of a hook
/// in mode `observe`.
pub(crate) fn without_release(
    driver: Driver,
    operator_namespace: &str,
    operator_deployment: Option<&str>,
) -> RolloutTarget {
    let settings = Settings {
        namespace: operator_namespace.to_owned(),
        component: driver.traits().component.to_owned(),
        tasks: if driver == Driver::Gpu {
            vec![Task::Settle, Task::Reroll]
        } else {
            vec![Task::Settle]
        },
        driver,
        mode: Mode::Observe,
        budget_seconds: u64::from(u32::MAX),
        quiet_seconds: 0,
        grace_seconds: u64::from(u32::MAX),
        operator_namespace: operator_namespace.to_owned(),
        operator_deployment: operator_deployment.map(str::to_owned),
        dra: DraSettings { reroll: Reroll::Off, ..DraSettings::default() },
        ..Settings::default()
    };
    RolloutTarget { settings, release: None, deployer: None }
}

impl RolloutTarget {
    /// Returns the settings for observing the target: those of the hook, plus watches of everything
    /// that can explain why a node does not move. `live`: a hook Job is running; without one, no
    /// hook replaces plugins.
    pub(crate) fn observation_settings(&self, live: bool) -> Settings {
        let mut settings = self.settings.clone();
        settings.tasks.retain(|task| !task.is_step());
        if settings.has(Task::Settle) {
            settings.tasks.insert(0, Task::Preflight);
        }
        if !live && settings.dra.reroll == Reroll::Auto {
            settings.dra.reroll = Reroll::Off;
        }
        settings
    }

    /// Returns the title for people: the driver and the hook release.
    pub fn title(&self) -> String {
        let settings = &self.settings;
        let name = match (settings.has(Task::Settle), settings.driver) {
            (true, Driver::Gpu) => "GPU driver".to_owned(),
            (true, Driver::Ofed) => "OFED driver".to_owned(),
            (true, Driver::DaemonSet) => {
                format!("daemonset {}", settings.own_daemon_set().unwrap_or_default())
            }
            (false, _) if settings.has(Task::Reroll) => "DRA driver".to_owned(),
            (false, _) => "device plugin".to_owned(),
        };
        match &self.release {
            Some(release) => format!("{name} (release {release}, mode {})", settings.mode.name()),
            None => format!(
                "{name} ({}, no hook release of gpu-rollout)",
                settings.driver.traits().operator
            ),
        }
    }
}
