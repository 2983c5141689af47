//! The patch that starts a node's upgrade.

use crate::action::NodePatch;
use crate::decide::node_draft::NodeDraft;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use crate::hold;

use super::acceptance::is_canary;
use super::patch::put;
use super::turn::after_jobs;
use super::{DrivenNode, asked_for, group, is_requested};

/// Starts a node: cordon, state and record in one patch. `again`: number of earlier attempts.
pub(in crate::decide) fn start(draft: &mut NodeDraft<'_>, again: u32) {
    let is_canary = is_canary(draft);
    let Some(driven) = DrivenNode::of(draft.fleet, draft.node) else { return };
    let (node, settings, traits, now) = (draft.node, draft.settings(), draft.traits(), draft.now());
    let known = driven.record();
    let restart_only = again == 0 && driven.is_restart_only(traits);
    let before = known.filter(|record| record.digest == settings.digest);
    let counts = before.is_some() && !is_requested(node, traits);
    let after_restart = before
        .and_then(|record| record.failure.as_ref())
        .is_some_and(|failure| !failure.cause.is_before_restart());
    let state = if restart_only || after_restart {
        UpgradeState::PodRestartRequired
    } else if settings.upgrade.policy.wait_for_completion.is_some() {
        UpgradeState::WaitForJobsRequired
    } else {
        after_jobs(&settings.upgrade.policy)
    };
    let attempts = known.filter(|_| counts).map(|record| record.attempts.clone());
    let record = UpgradeRecord {
        cordoned: !node.unschedulable || known.is_some_and(|record| record.cordoned),
        restart_only,
        requested: asked_for(node, traits) || known.is_some_and(|record| record.requested),
        canary: is_canary || known.is_some_and(|record| record.canary),
        group: group(draft, &driven),
        daemon_set: settings.own_daemon_set(),
        driver_pod: driven.pod.as_ref().map(|driver| driver.pod.uid.clone()),
        driver_changed: known.is_some_and(|record| record.has_changed_driver()),
        attempts: attempts.unwrap_or_default(),
        ..UpgradeRecord::new(state, &settings.digest, now)
    };
    let mut patch = NodePatch::for_node(node);
    put(&mut patch, &record, traits);
    if node.annotations.contains_key(traits.requested) {
        patch.annotations.insert(traits.requested.to_owned(), None);
    }
    hold::release(node, settings.driver, &mut patch);
    patch.unschedulable = (!node.unschedulable).then_some(true);
    draft.issue_start(patch);
}
