//! Reading of the logs of acceptance tests.

use jiff::Timestamp;
use kube::Client;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, log_excerpt};
use planner::action::TestLogReading;

use crate::call::CallError;
use crate::raw::log;

/// How many lines more are read than kept: a secret of several lines is recognized more reliably as
/// a whole.
const MORE_LINES: u32 = 50;

/// Reads the last lines of the log of an acceptance test's pod, without known forms of secrets.
/// Writes nothing. RBAC: `get` on `pods/log` in [`ACCEPTANCE_NAMESPACE`].
///
/// # Errors
/// The call failed, or the container has no log. [`CallError::is_passing`]: a later attempt can
/// help.
pub async fn read_test_log(
    client: &Client,
    reading: &TestLogReading,
) -> Result<Vec<String>, CallError> {
    let pod = (ACCEPTANCE_NAMESPACE, reading.pod.as_str());
    let lines = reading.lines.saturating_add(MORE_LINES);
    let text = log(client, pod, &reading.container, false, lines).await?;
    Ok(log_excerpt(&without_times(&text), reading.lines))
}

/// Removes the timestamp at the start of each line: there is little room for lines.
fn without_times(log: &str) -> String {
    log.split('\n').map(without_time).collect::<Vec<_>>().join("\n")
}

fn without_time(line: &str) -> &str {
    match line.split_once(' ') {
        Some((time, text)) if time.parse::<Timestamp>().is_ok() => text,
        // The container has written an empty line.
        None if line.parse::<Timestamp>().is_ok() => "",
        Some(_) | None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_at_line_starts_are_removed() {
        let log = "2026-01-02T03:04:05.123456789Z one two\n2026-01-02T03:04:06Z\n2026-01-02T03:04:07Z \n  three\n2026-01-02T03:04:08Z 2026-01-02T03:04:08Z four";
        let kept = ["one two", "", "", "  three", "2026-01-02T03:04:08Z four"];
        assert_eq!(without_times(log), kept.join("\n"));
    }
}
