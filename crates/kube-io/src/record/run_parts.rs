//! The keys of cohort and baseline. They are large and seldom change, so they are rendered once.

use std::sync::Arc;

use contract::record::RunRecord;
use contract::record::baseline::{BASELINE_KEY_PREFIX, Baseline};
use contract::record::cohort::{COHORT_KEY_PREFIX, Cohort};

use super::layout::FixedKey;

/// The keys of the last cohort and baseline.
#[derive(Default)]
pub(super) struct RunParts {
    /// Kept, so that no other value can have its address, and a change of it is a copy.
    cohort: Option<Arc<Cohort>>,
    /// Kept for the same reason.
    baseline: Option<Arc<Baseline>>,
    keys: Vec<FixedKey>,
}

impl RunParts {
    /// Returns the keys of the run's cohort and baseline: the first part of each in the first
    /// object, the second in the second, and so on.
    pub(super) fn keys(&mut self, run: &RunRecord) -> &[FixedKey] {
        if !is_same(self.cohort.as_ref(), run.cohort.as_ref())
            || !is_same(self.baseline.as_ref(), run.baseline.as_ref())
        {
            let cohort = run.cohort.iter().flat_map(|cohort| cohort.parts()).enumerate();
            let baseline = run.baseline.iter().flat_map(|baseline| baseline.parts()).enumerate();
            let keyed = |prefix: &'static str| {
                move |(index, part): (usize, String)| (index, format!("{prefix}{index}"), part)
            };
            let cohort = cohort.map(keyed(COHORT_KEY_PREFIX));
            let keys = cohort.chain(baseline.map(keyed(BASELINE_KEY_PREFIX))).collect();
            *self = Self { cohort: run.cohort.clone(), baseline: run.baseline.clone(), keys };
        }
        &self.keys
    }
}

fn is_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(uids: &[&str]) -> RunRecord {
        let mut run: RunRecord = serde_json::from_value(json!({
            "formatVersion": 1, "digest": "", "job": "", "startedAt": "2026-12-01T00:00:00Z",
        }))
        .expect("a run with the required keys");
        run.cohort = Some(Arc::new(Cohort::from_uids(uids.iter().copied())));
        run
    }

    #[test]
    fn keys_are_rendered_only_for_another_cohort() {
        let (mut first, mut parts) = (run(&["a"]), RunParts::default());
        let keys = parts.keys(&first).to_vec();
        assert_eq!((keys.len(), keys[0].0, &*keys[0].1), (1, 0, "cohort.0"));
        let address = parts.keys(&first)[0].2.as_ptr();
        assert_eq!(parts.keys(&first)[0].2.as_ptr(), address, "rendered again");
        assert_ne!(parts.keys(&run(&["b"])), keys, "of another cohort");
        first.cohort = None;
        assert_eq!(parts.keys(&first), []);
    }
}
