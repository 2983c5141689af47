//! The metrics of a running hook (`GET /metrics` of its pod) and of a completed run (`gpu-rollout
//! report -o metrics`). `docs/metrics.md` is generated from this table, and tests compare the hook
//! chart's alerts and dashboard with it. Names and units follow Prometheus' conventions
//! (prometheus.io/docs/practices/naming): base units, and times as Unix seconds, so that an age is
//! `time() - …`.

use strum::IntoStaticStr;

mod samples;

pub use samples::MetricSamples;

/// Media type of the text, as OpenMetrics 1.0 requires it.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum MetricKind {
    /// A current value.
    Gauge,
    /// A number that only grows. Its samples end with `_total`.
    Counter,
    /// A distribution of values over buckets.
    Histogram,
}

impl MetricKind {
    /// Returns the OpenMetrics name of the type.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Who exposes a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSource {
    /// The running hook.
    Hook,
    /// The run record.
    Report,
}

/// One metric. Every sample also has the labels [`COMMON`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name, without the suffix of counters.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// Who exposes it.
    pub source: MetricSource,
    /// Its own labels. Their values come from fixed lists, except for `node`, which only metrics of
    /// nodes that are not done have.
    pub labels: &'static [&'static str],
    /// The help text.
    pub help: &'static str,
}

impl Metric {
    const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Gauge, source: MetricSource::Hook, labels, help }
    }

    const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { kind: MetricKind::Counter, ..Self::gauge(name, labels, help) }
    }

    const fn report(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { source: MetricSource::Report, ..Self::gauge(name, labels, help) }
    }

    /// Returns the name of its samples.
    pub fn sample_name(&self) -> String {
        let ending = if self.kind == MetricKind::Counter { "_total" } else { "" };
        format!("{}{ending}", self.name)
    }
}

/// The labels of every sample: the hook release with its namespace, and the driver.
pub const COMMON: [&str; 3] = ["namespace", "release", "driver"];

/// Identity of the run.
pub const RUN_INFO: Metric = Metric::gauge(
    "gpu_rollout_run_info",
    &["version", "component", "mode", "digest"],
    "Always 1: version, component, mode and trigger digest of the run",
);
/// Start of the run.
pub const RUN_START: Metric = Metric::gauge(
    "gpu_rollout_run_start_timestamp_seconds",
    &[],
    "Start time of the run, Unix time",
);
/// End of the run's time budget.
pub const RUN_DEADLINE: Metric = Metric::gauge(
    "gpu_rollout_run_deadline_timestamp_seconds",
    &[],
    "End of the time budget of the run, Unix time",
);
/// Estimated end of the rollout.
pub const EXPECTED_END: Metric = Metric::gauge(
    "gpu_rollout_expected_end_timestamp_seconds",
    &[],
    "Estimated time at which all nodes are done, Unix time; absent without an estimate, for example while a node needs manual action",
);
/// Whether the hook holds the Lease.
pub const LEASE_HELD: Metric = Metric::gauge(
    "gpu_rollout_lease_held",
    &[],
    "1 if the hook holds the Lease that all hooks share; 0 if it waits for the Lease",
);
/// Whether the watches are in step with the API server.
pub const IN_STEP: Metric = Metric::gauge(
    "gpu_rollout_in_step",
    &[],
    "1 if all watches of the hook are in step with the API server; while it is 0, the hook decides nothing",
);
/// Number of pauses.
pub const PAUSES: Metric = Metric::gauge("gpu_rollout_pauses", &[], "Number of pauses in force");
/// Whether the rollout has halted.
pub const HALTED: Metric = Metric::gauge(
    "gpu_rollout_halted",
    &["cause"],
    "1 if the rollout has halted, by cause: it starts no more nodes; absent: it has not",
);
/// The current step.
pub const STEP: Metric = Metric::gauge(
    "gpu_rollout_step",
    &[],
    "Number of the current step (canary, ramp), from 1; absent: the new driver needs no proof, or no node needs the driver any more",
);
/// The number of steps.
pub const STEPS: Metric = Metric::gauge(
    "gpu_rollout_steps",
    &[],
    "Number of steps of the rollout (canary, ramp); absent: the new driver needs no proof, or no node needs the driver any more",
);
/// The number of canaries.
pub const CANARIES: Metric = Metric::gauge(
    "gpu_rollout_canaries",
    &[],
    "Number of canaries that the hook has chosen so far",
);
/// Nodes by stage.
pub const NODES: Metric = Metric::gauge(
    "gpu_rollout_nodes",
    &["stage"],
    "Nodes of the rollout by stage; unknown: not assessed, because the whole fleet waits",
);
/// Nodes by reason.
pub const NODES_WAITING: Metric = Metric::gauge(
    "gpu_rollout_nodes_waiting",
    &["reason"],
    "Nodes by reason: what a node waits for, or why it failed or was deferred",
);
/// Occupied slots.
pub const SLOTS_USED: Metric =
    Metric::gauge("gpu_rollout_slots_used", &[], "Nodes that occupy a slot of maxParallelUpgrades");
/// All slots.
pub const SLOTS_LIMIT: Metric = Metric::gauge(
    "gpu_rollout_slots_limit",
    &[],
    "Number of slots (maxParallelUpgrades); absent: no limit",
);
/// Unavailable nodes.
pub const UNAVAILABLE: Metric = Metric::gauge(
    "gpu_rollout_nodes_unavailable",
    &[],
    "Nodes that are cordoned or not ready, for any reason",
);
/// Limit of unavailable nodes.
pub const UNAVAILABLE_LIMIT: Metric = Metric::gauge(
    "gpu_rollout_nodes_unavailable_limit",
    &[],
    "Number of unavailable nodes at which no further upgrade starts (maxUnavailable); absent: no limit",
);
/// Start of the fleet's wait.
pub const FLEET_SINCE: Metric = Metric::gauge(
    "gpu_rollout_fleet_waiting_since_timestamp_seconds",
    &["reason"],
    "Time since which the whole fleet waits for this reason, Unix time",
);
/// Start of a node's wait.
pub const NODE_SINCE: Metric = Metric::gauge(
    "gpu_rollout_node_waiting_since_timestamp_seconds",
    &["node", "stage", "reason", "resolves_itself"],
    "Time since which a node that is not done waits for this reason, Unix time; resolves_itself is false if manual action is needed",
);
/// Start of a node's upgrade state.
pub const NODE_STATE_SINCE: Metric = Metric::gauge(
    "gpu_rollout_node_state_since_timestamp_seconds",
    &["node", "state"],
    "Time since which a node that is not done is in this upgrade state, Unix time",
);
/// Failed attempts.
pub const NODE_ATTEMPTS: Metric = Metric::gauge(
    "gpu_rollout_node_attempts",
    &["node", "cause"],
    "Failed attempts to upgrade a node under this trigger digest, by cause",
);
/// Duration of decisions.
pub const DECISION_DURATION: Metric = Metric {
    kind: MetricKind::Histogram,
    ..Metric::gauge(
        "gpu_rollout_decision_duration_seconds",
        &[],
        "Duration of decisions, from the snapshot to the actions",
    )
};
/// Evictions.
pub const EVICTIONS: Metric = Metric::counter(
    "gpu_rollout_evictions",
    &["answer"],
    "Evictions that this pod of the hook requested, by answer",
);
/// Replaced plugins.
pub const REPLACEMENTS: Metric = Metric::counter(
    "gpu_rollout_plugin_replacements",
    &["plugin"],
    "Plugin pods that this pod of the hook replaced",
);
/// Failed writes.
pub const FAILED_WRITES: Metric = Metric::counter(
    "gpu_rollout_failed_writes",
    &["what"],
    "Writes to the API server that failed and that the hook retries",
);

/// Exit code of the last run.
pub const LAST_EXIT_CODE: Metric = Metric::report(
    "gpu_rollout_last_run_exit_code",
    &[],
    "Exit code of the last run; absent while the run continues (docs/exit-codes.md)",
);
/// Whether the rollout has halted.
pub const LAST_HALTED: Metric = Metric::report(
    "gpu_rollout_last_run_halted",
    &["cause"],
    "1 if the rollout has halted, by cause; absent: it has not, or a user has ended the halt",
);
/// Start of the last run.
pub const LAST_START: Metric = Metric::report(
    "gpu_rollout_last_run_start_timestamp_seconds",
    &[],
    "Start time of the last run, Unix time",
);
/// End of the last run.
pub const LAST_END: Metric = Metric::report(
    "gpu_rollout_last_run_end_timestamp_seconds",
    &[],
    "End time of the last run, Unix time",
);
/// Nodes of the last run by outcome.
pub const LAST_NODES: Metric =
    Metric::report("gpu_rollout_last_run_nodes", &["outcome"], "Nodes of the last run by outcome");
/// Evicted pods.
pub const LAST_EVICTED: Metric =
    Metric::report("gpu_rollout_last_run_evicted_pods", &[], "Pods that the last run evicted");
/// Replaced plugins.
pub const LAST_REPLACED: Metric = Metric::report(
    "gpu_rollout_last_run_replaced_plugins",
    &[],
    "Plugin pods that the last run replaced",
);

/// Every metric, in the order in which they are written.
pub const ALL: [Metric; 32] = [
    RUN_INFO,
    RUN_START,
    RUN_DEADLINE,
    EXPECTED_END,
    LEASE_HELD,
    IN_STEP,
    PAUSES,
    HALTED,
    STEP,
    STEPS,
    CANARIES,
    NODES,
    NODES_WAITING,
    SLOTS_USED,
    SLOTS_LIMIT,
    UNAVAILABLE,
    UNAVAILABLE_LIMIT,
    FLEET_SINCE,
    NODE_SINCE,
    NODE_STATE_SINCE,
    NODE_ATTEMPTS,
    DECISION_DURATION,
    EVICTIONS,
    REPLACEMENTS,
    FAILED_WRITES,
    LAST_EXIT_CODE,
    LAST_HALTED,
    LAST_START,
    LAST_END,
    LAST_NODES,
    LAST_EVICTED,
    LAST_REPLACED,
];
