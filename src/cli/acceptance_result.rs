//! The results of acceptance tests as text, for `why`, `report` and `accept`.

use jiff::SignedDuration;

use contract::acceptance::AcceptanceTime;
use contract::record::acceptance::{AcceptanceResult, AcceptanceVerdict};
use ops::time::format_duration;

/// Formats a result without its message, such as `test dcgm passed after 4m (new driver)`.
pub(super) fn acceptance_text(result: &AcceptanceResult) -> String {
    let AcceptanceResult { test, time, verdict, seconds, .. } = result;
    let driver = match time {
        AcceptanceTime::Before => "old driver",
        AcceptanceTime::After => "new driver",
    };
    let after = match verdict {
        AcceptanceVerdict::NotRun | AcceptanceVerdict::Refused => String::new(),
        AcceptanceVerdict::Passed
        | AcceptanceVerdict::Failed
        | AcceptanceVerdict::TimedOut
        | AcceptanceVerdict::ImageNotPulled
        | AcceptanceVerdict::Unschedulable
        | AcceptanceVerdict::EndedByKubelet
        | AcceptanceVerdict::Lost => format!(" after {}", duration(*seconds)),
    };
    format!("test {test} {verdict}{after} ({driver})")
}

/// Formats seconds.
pub(super) fn duration(seconds: u64) -> String {
    format_duration(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)))
}

/// Formats the results of a node for one cell of a table: the tests that it did not pass, or how
/// many it passed. Returns an empty string for a node without results.
pub(super) fn acceptance_summary(results: &[AcceptanceResult]) -> String {
    let refused: Vec<String> = results
        .iter()
        .filter(|result| !result.verdict.accepts())
        .map(|result| format!("{} {}", result.test, result.verdict))
        .collect();
    if !refused.is_empty() {
        return refused.join(", ");
    }
    let count = |verdict| results.iter().filter(|result| result.verdict == verdict).count();
    match (count(AcceptanceVerdict::Passed), count(AcceptanceVerdict::NotRun)) {
        (0, 0) => String::new(),
        (passed, 0) => format!("{passed} passed"),
        (0, _) => "not run".to_owned(),
        (passed, left) => format!("{passed} passed, {left} not run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(test: &str, verdict: AcceptanceVerdict) -> AcceptanceResult {
        AcceptanceResult {
            test: test.to_owned(),
            time: AcceptanceTime::After,
            driver_pod: "uid".to_owned(),
            verdict,
            message: String::new(),
            at: jiff::Timestamp::UNIX_EPOCH,
            seconds: 240,
            log: Vec::new(),
        }
    }

    #[test]
    fn result_names_test_verdict_and_driver() {
        let text = |verdict| acceptance_text(&result("dcgm", verdict));
        let passed = text(AcceptanceVerdict::Passed);
        assert!(passed.starts_with("test dcgm passed after 4"), "{passed}");
        assert!(passed.ends_with(" (new driver)"), "{passed}");
        assert_eq!(text(AcceptanceVerdict::NotRun), "test dcgm was not run (new driver)");
    }

    #[test]
    fn summary_names_the_tests_that_did_not_pass() {
        let [passed, failed, left] =
            [AcceptanceVerdict::Passed, AcceptanceVerdict::Failed, AcceptanceVerdict::NotRun];
        for (verdicts, expected) in [
            (&[][..], ""),
            (&[passed, passed], "2 passed"),
            (&[passed, left], "1 passed, 1 not run"),
            (&[left], "not run"),
            (&[passed, failed, left], "b failed"),
        ] {
            let names = ["a", "b", "c"].into_iter().zip(verdicts);
            let results: Vec<AcceptanceResult> =
                names.map(|(test, verdict)| result(test, *verdict)).collect();
            assert_eq!(acceptance_summary(&results), expected, "{verdicts:?}");
        }
    }
}
