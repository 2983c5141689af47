//! Metrics of the running hook: counters, and the state of the fleet, which is computed at scrape
//! time. The loop only stores a snapshot, which costs a few pointers.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use contract::metrics::{self as table, COMMON, Metric, MetricSamples};
use contract::record::ReplacedPodKind;
use contract::settings::Settings;

mod fleet_snapshot;
mod serve;

pub(super) use fleet_snapshot::FleetSnapshot;
pub use serve::{listen, serve};

/// A counter with one label, whose values are constants.
type CounterFamily = Family<[(&'static str, &'static str); 1], Counter>;

/// The metrics of one process.
pub struct HookMetrics {
    settings: Settings,
    counted: Registry,
    decisions: Histogram,
    evictions: CounterFamily,
    replacements: CounterFamily,
    failed_writes: CounterFamily,
    held: AtomicBool,
    in_step: AtomicBool,
    /// Whether the metrics are served. Without a server, no snapshot is kept.
    served: AtomicBool,
    snapshot: Mutex<Option<Arc<FleetSnapshot>>>,
}

fn common(
    settings: &Settings,
) -> impl Iterator<Item = (Cow<'static, str>, Cow<'static, str>)> + use<> {
    let values = [
        settings.namespace.clone(),
        settings.release.clone(),
        settings.driver.traits().name.to_owned(),
    ];
    COMMON.into_iter().map(Into::into).zip(values.map(Into::into))
}

impl HookMetrics {
    pub(super) fn new(settings: Settings) -> Self {
        let mut counted = Registry::with_labels(common(&settings));
        // From 100 µs for a small unchanged fleet to a few seconds for ten thousand nodes on a slow
        // machine.
        let decisions = Histogram::new(exponential_buckets(0.0001, 4.0, 9));
        let (evictions, replacements, failed_writes) =
            (CounterFamily::default(), CounterFamily::default(), CounterFamily::default());
        let mut register = |metric: &Metric, counts: &CounterFamily| {
            counted.register(metric.name, metric.help, counts.clone());
        };
        register(&table::EVICTIONS, &evictions);
        register(&table::REPLACEMENTS, &replacements);
        register(&table::FAILED_WRITES, &failed_writes);
        counted.register(
            table::DECISION_DURATION.name,
            table::DECISION_DURATION.help,
            decisions.clone(),
        );
        Self {
            settings,
            counted,
            decisions,
            evictions,
            replacements,
            failed_writes,
            held: AtomicBool::new(false),
            in_step: AtomicBool::new(false),
            served: AtomicBool::new(false),
            snapshot: Mutex::new(None),
        }
    }

    /// Counts the answer to an eviction.
    pub(super) fn count_eviction(&self, answer: &'static str) {
        self.evictions.get_or_create(&[("answer", answer)]).inc();
    }

    /// Counts a plugin pod that is being replaced.
    pub(super) fn count_replacement(&self, plugin: ReplacedPodKind) {
        let plugin = match plugin {
            ReplacedPodKind::Dra => "dra",
            ReplacedPodKind::Device => "device",
        };
        self.replacements.get_or_create(&[("plugin", plugin)]).inc();
    }

    /// Counts a write that has failed.
    pub(super) fn count_failed_write(&self, what: &'static str) {
        self.failed_writes.get_or_create(&[("what", what)]).inc();
    }

    /// Records the duration of a decision.
    pub(super) fn observe_decision(&self, took: Duration) {
        self.decisions.observe(took.as_secs_f64());
    }

    /// Notes whether the Lease is held.
    pub(super) fn set_lease_held(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// Notes whether the caches are in step.
    pub(super) fn set_in_step(&self, in_step: bool) {
        self.in_step.store(in_step, Ordering::Relaxed);
    }

    /// Enables snapshots, because the metrics are served from now on.
    pub fn enable_snapshots(&self) {
        self.served.store(true, Ordering::Relaxed);
    }

    /// Keeps the snapshot of a decision if the metrics are served.
    pub(super) fn keep_snapshot(&self, snapshot: impl FnOnce() -> FleetSnapshot) {
        if self.served.load(Ordering::Relaxed) {
            let snapshot = snapshot();
            *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Arc::new(snapshot));
        }
    }

    /// Returns all metrics in the text format of OpenMetrics.
    pub fn text(&self, now: Timestamp) -> String {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut samples = MetricSamples::default();
        let settings = &self.settings;
        let held = self.held.load(Ordering::Relaxed);
        samples.about(&settings.namespace, &settings.release, settings.driver.traits().name);
        let digest: String = settings.digest.chars().take(16).collect();
        samples.add(
            &table::RUN_INFO,
            [env!("CARGO_PKG_VERSION"), &settings.component, settings.mode.name(), &digest],
            1.0,
        );
        samples.add(&table::LEASE_HELD, [], f64::from(u8::from(held)));
        samples.add(&table::IN_STEP, [], f64::from(u8::from(self.in_step.load(Ordering::Relaxed))));
        if let Some(snapshot) = snapshot.filter(|snapshot| held || snapshot.is_current(now)) {
            snapshot.add_to(&mut samples, settings, now);
        }
        let mut text = samples.text();
        // Writing to a string cannot fail.
        let _ = encode_registry(&mut text, &self.counted);
        let _ = encode_eof(&mut text);
        text
    }
}
