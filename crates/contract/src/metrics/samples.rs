//! Values of metrics at one point in time, gathered at scrape time.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::{ALL, COMMON, Metric};

/// The values of gauges.
#[derive(Clone, Debug, Default)]
pub struct MetricSamples {
    common: [String; COMMON.len()],
    all: Vec<MetricSample>,
}

#[derive(Clone, Debug)]
struct MetricSample {
    metric: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl MetricSamples {
    /// Sets the release and the driver of the values that are added after this call.
    pub fn about(&mut self, namespace: &str, release: &str, driver: &str) {
        self.common = [namespace.to_owned(), release.to_owned(), driver.to_owned()];
    }

    /// Adds a value: `labels` are the values of the metric's own labels, in the table's order.
    pub fn add<const N: usize>(&mut self, metric: &Metric, labels: [&str; N], value: f64) {
        debug_assert_eq!(N, metric.labels.len(), "{}", metric.name);
        let common = COMMON.into_iter().zip(self.common.clone());
        let own = metric.labels.iter().copied().zip(labels.map(str::to_owned));
        self.all.push(MetricSample {
            metric: metric.name,
            labels: common.chain(own).collect(),
            value,
        });
    }

    /// Returns the samples as text, without the end mark.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string does not fail, and the samples' encoder only fails if it does.
        let _ = encode_registry(&mut text, &registry);
        text
    }
}

impl Collector for MetricSamples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in ALL {
            let mut samples =
                self.all.iter().filter(|sample| sample.metric == metric.name).peekable();
            let Some(first) = samples.peek() else { continue };
            let kind = ConstGauge::new(first.value).metric_type();
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for sample in samples {
                ConstGauge::new(sample.value).encode(family.encode_family(&sample.labels)?)?;
            }
        }
        Ok(())
    }
}
