//! What is looked at: a hook release, or a driver that is rolled out without one.

use contract::count::Count;
use contract::driver::Driver;
use contract::names;
use contract::policy::UpgradeSettings;
use contract::preflight::PreflightSettings;
use contract::settings::{
    self, DevicePluginSettings, DraRequired, DraSettings, Expected, Gate, Mode, OperatorUpgradeSettings, Reroll, Settings, SettleSettings,
};
use contract::task::Task;
use kube_io::releases::HookRelease;

/// Seconds that a node is expected to take where nobody says: the hook chart's default.
const PER_NODE_SECONDS: u64 = 600;
/// Seconds that a replaced plugin gets to come back; the hook chart's default.
const REPLACEMENT_SECONDS: u64 = 300;

/// One rollout that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutTarget {
    /// What it goes by.
    pub settings: Settings,
    /// `namespace/name` of the hook release; `None`: there is none, and the settings are the hook's defaults.
    pub release: Option<String>,
}

/// What hook releases come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedReleases {
    /// The rollouts: of those whose hook watches the cluster.
    pub targets: Vec<RolloutTarget>,
    /// Those with nothing but a step before the operator.
    pub steps: Vec<Settings>,
    /// What is wrong with the others, for people.
    pub notes: Vec<String>,
}

/// The rollouts of these releases.
pub fn of_releases(releases: Vec<HookRelease>) -> SortedReleases {
    let SortedReleases { mut targets, mut steps, mut notes } = SortedReleases::default();
    for HookRelease { trigger, settings } in releases {
        match settings {
            Ok(settings) if settings.watches() => {
                let release = Some(format!("{}/{}", settings.namespace, settings.release));
                targets.push(RolloutTarget { settings: *settings, release });
            }
            // Its rollout is the release behind it.
            Ok(settings) => steps.push(*settings),
            Err(error) => notes.push(format!("configmap {trigger}: {error}")),
        }
    }
    // Network before GPU, and the release that settles a driver before those that only look after plugins.
    targets.sort_by_key(|target| {
        let settings = &target.settings;
        (!settings.has(Task::Settle), settings.driver != Driver::Ofed, settings.driver, target.release.clone())
    });
    SortedReleases { targets, steps, notes }
}

/// A driver of an operator that is there without a hook of ours: what a hook in mode `observe` would go by.
pub fn without_release(driver: Driver, operator_namespace: &str, operator_deployment: Option<&str>) -> RolloutTarget {
    let gpu = driver == Driver::Gpu;
    let settings = Settings {
        format_version: settings::FORMAT_VERSION,
        digest: String::new(),
        release: String::new(),
        namespace: operator_namespace.to_owned(),
        record: String::new(),
        component: driver.traits().component.to_owned(),
        component_version: None,
        tasks: if gpu { vec![Task::Settle, Task::Reroll] } else { vec![Task::Settle] },
        driver,
        mode: Mode::Observe,
        gate: Gate::Settled,
        budget_seconds: u64::from(u32::MAX),
        per_node_seconds: PER_NODE_SECONDS,
        quiet_seconds: 0,
        grace_seconds: u64::from(u32::MAX),
        operator_namespace: operator_namespace.to_owned(),
        operator_deployment: operator_deployment.map(str::to_owned),
        daemon_set: None,
        cluster_policy: names::CLUSTER_POLICY.to_owned(),
        tolerate_not_ready: Count::Number(0),
        upgrade: UpgradeSettings::default(),
        settle: SettleSettings::default(),
        operator_upgrade: OperatorUpgradeSettings::default(),
        dra: DraSettings {
            reroll: Reroll::Off,
            required: DraRequired::Auto,
            namespaces: names::DRA_NAMESPACES.map(str::to_owned).to_vec(),
            max_unavailable: Count::Percent(25),
            replacement_seconds: REPLACEMENT_SECONDS,
        },
        device_plugin: DevicePluginSettings::default(),
        expected: Expected::default(),
        preflight: PreflightSettings::default(),
    };
    RolloutTarget { settings, release: None }
}

impl RolloutTarget {
    /// What the look goes by: the hook's settings, and everything is watched that can tell why a node does not move. `live`: a Job is at
    /// work; where none is, nobody replaces plugins.
    pub fn looking(&self, live: bool) -> Settings {
        let mut looking = self.settings.clone();
        looking.tasks.retain(|task| !task.is_step());
        if looking.has(Task::Settle) {
            looking.tasks.insert(0, Task::Preflight);
        }
        if !live && looking.dra.reroll == Reroll::Auto {
            looking.dra.reroll = Reroll::Off;
        }
        looking
    }

    /// Its name for people: the driver, and the hook release.
    pub fn title(&self) -> String {
        let settings = &self.settings;
        let what = match (settings.has(Task::Settle), settings.driver) {
            (true, Driver::Gpu) => "GPU driver".to_owned(),
            (true, Driver::Ofed) => "network driver".to_owned(),
            (true, Driver::DaemonSet) => format!("daemonset {}", settings.own_daemon_set().unwrap_or_default()),
            (false, _) if settings.has(Task::Reroll) => "DRA driver".to_owned(),
            (false, _) => "device plugin".to_owned(),
        };
        match &self.release {
            Some(release) => format!("{what} (release {release}, mode {})", settings.mode.name()),
            None => format!("{what} ({}, no hook release of gpu-rollout)", settings.driver.traits().operator),
        }
    }
}
