//! Whether the acceptance test of a node will probably not pass until a user acts.

use jiff::{SignedDuration, Timestamp};

use observed::acceptance::{AcceptancePhase, AcceptancePod};
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

/// How long the pod of an acceptance test may have a problem until a user must look at it: within
/// this time, the kubelet pulls an image three times, and a plugin that restarts offers its GPUs.
const TEST_PROBLEM: SignedDuration = SignedDuration::from_secs(60);

/// Returns whether the acceptance test of a node has had a problem for so long that it will
/// probably not pass: its image cannot be pulled, for example. `pod`: the pod of the test; `since`:
/// when the node started to wait, which decides while there is no pod.
pub(super) fn cannot_pass(
    reason: &Reason,
    pod: Option<&AcceptancePod>,
    since: Option<Timestamp>,
    now: Timestamp,
) -> bool {
    let has_problem =
        matches!(reason, Reason::Upgrading(UpgradeReason::Accepting { trouble: Some(_), .. }));
    // It is unknown since when a pod that runs has had its problem.
    let may_start = pod.is_none_or(|pod| !pod.deleting && pod.phase != AcceptancePhase::Running);
    let since = pod.map(|pod| pod.created).or(since);
    let lasts = since.is_some_and(|since| now.duration_since(since) > TEST_PROBLEM);
    has_problem && may_start && lasts
}

#[cfg(test)]
mod tests {
    use contract::acceptance::AcceptanceTime;

    use super::*;

    /// `status` said `nothing to do` until the node of a test whose image is missing had failed.
    #[test]
    fn test_whose_pod_does_not_run_is_stalled() {
        let now = Timestamp::UNIX_EPOCH;
        let ago = |seconds| now - SignedDuration::from_secs(seconds);
        let accepting = |trouble: Option<&str>| {
            Reason::Upgrading(UpgradeReason::Accepting {
                test: "dcgm".to_owned(),
                time: AcceptanceTime::After,
                trouble: trouble.map(str::to_owned),
                until: now,
            })
        };
        let problem = accepting(Some("main: ImagePullBackOff"));
        let pod = |phase, created| AcceptancePod { created, phase, ..AcceptancePod::default() };
        let missing = |created| pod(AcceptancePhase::ImageNotPulled("why".to_owned()), created);
        let deleting = AcceptancePod { deleting: true, ..missing(ago(61)) };
        for (case, reason, pod, since, is_stalled) in [
            ("it lasts", &problem, Some(missing(ago(61))), None, true),
            ("it is new", &problem, Some(missing(ago(60))), Some(ago(600)), false),
            ("no pod", &problem, None, Some(ago(61)), true),
            ("unknown since when", &problem, None, None, false),
            ("being deleted", &problem, Some(deleting), None, false),
            ("it runs", &problem, Some(pod(AcceptancePhase::Running, ago(61))), None, false),
            ("no problem", &accepting(None), Some(missing(ago(61))), None, false),
            ("another reason", &Reason::DriverPodMissing, None, Some(ago(61)), false),
        ] {
            assert_eq!(cannot_pass(reason, pod.as_ref(), since, now), is_stalled, "{case}");
        }
    }
}
