//! The steps of a node's upgrade: from the annotation of a node in progress, otherwise from the run
//! record.

use jiff::Timestamp;

use contract::record::RecordedStep;
use planner::drive_upgrade::record::read;

use super::observe::RolloutSnapshot;

/// Returns the steps of the node's upgrade so far, in order.
pub(crate) fn upgrade_steps(snapshot: &RolloutSnapshot, node: &str) -> Vec<RecordedStep> {
    let traits = snapshot.settings.driver.traits();
    let annotated = snapshot
        .observed
        .nodes
        .get(node)
        .and_then(|node| read(node, traits).record().map(|record| record.steps()));
    let recorded = || {
        let mut steps = snapshot.record.nodes.get(node)?.steps.clone();
        let changed = snapshot.times.get(node).and_then(|times| times.keys.get(traits.state_label));
        let state =
            snapshot.observed.nodes.get(node).and_then(|node| node.labels.get(traits.state_label));
        correct_start(&mut steps, state, changed.map(|change| change.at));
        Some(steps)
    };
    annotated.or_else(recorded).unwrap_or_default()
}

/// Corrects the time of a state that the node had entered before the hook first observed it. For
/// the current state, the API server knows when its label was last written.
fn correct_start(steps: &mut [RecordedStep], state: Option<&String>, written: Option<Timestamp>) {
    if let (Some(last), Some(at)) = (steps.last_mut(), written)
        && last.or_earlier
        && state == Some(&last.state)
        && at <= last.at
    {
        (last.at, last.or_earlier) = (at, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// `why` showed the time of the hook's first observation as that of the state.
    #[test]
    fn state_before_first_observation_starts_with_its_label() {
        let step = |or_earlier, second| RecordedStep {
            state: "drain-required".to_owned(),
            at: at(second),
            or_earlier,
        };
        for (case, recorded, state, written, expected) in [
            ("the label is older", step(true, 50), "drain-required", Some(20), step(false, 20)),
            ("the hook observed it", step(false, 50), "drain-required", Some(20), step(false, 50)),
            ("the manager wrote again", step(true, 50), "drain-required", Some(60), step(true, 50)),
            ("another state", step(true, 50), "pod-restart-required", Some(20), step(true, 50)),
            ("nothing shows it", step(true, 50), "drain-required", None, step(true, 50)),
        ] {
            let mut steps = [recorded];
            correct_start(&mut steps, Some(&state.to_owned()), written.map(at));
            assert_eq!(steps, [expected], "{case}");
        }
    }
}
