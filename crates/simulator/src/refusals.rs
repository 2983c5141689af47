//! What the API server refuses of the hook's writes, and what admission changes of them.

use std::fmt;

use contract::record::WriteKind;
use planner::action::NodePatch;
use planner::decide::Action;
use planner::refused_write::RefusalKind;

use super::objects::timestamp;
use super::world::World;

/// A part of a node patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchPart {
    /// All labels.
    Labels,
    /// All annotations.
    Annotations,
    /// `spec.unschedulable`.
    Cordon,
    /// All of it.
    Everything,
}

/// What happens to the writes of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAdmission {
    /// Those of this kind are denied: by a policy, a webhook, validation or a quota.
    Denies(WriteKind),
    /// A webhook that is asked for those of this kind does not answer.
    Fails(WriteKind),
    /// Patches of the node are accepted without this part.
    Drops(PatchPart),
    /// Patches that set the cordon (`true`) or take it off (`false`) are denied.
    DeniesCordon(bool),
}

impl fmt::Display for WriteAdmission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denies(write) => write!(out, "admission denies {write}"),
            Self::Fails(write) => write!(out, "the webhook for {write} does not answer"),
            Self::Drops(part) => write!(out, "admission drops {part:?} of patches of the node"),
            Self::DeniesCordon(true) => write!(out, "admission denies the cordon"),
            Self::DeniesCordon(false) => write!(out, "admission denies the end of the cordon"),
        }
    }
}

impl World<'_> {
    /// Whether the server refuses the action, as it stands with the node's admission. The hook notes what its loop would note.
    pub(super) fn refuses(&mut self, action: &Action) -> bool {
        let Some(admission) = self.admissions.get(action.node()).copied() else { return false };
        let write = match action {
            Action::PatchNode(_) => WriteKind::Node,
            Action::Evict(_) => WriteKind::Eviction,
            Action::DeleteDriver(_) | Action::ReplacePlugin { .. } => WriteKind::PodDeletion,
        };
        let cordons = |wanted: bool| matches!(action, Action::PatchNode(patch) if patch.unschedulable == Some(wanted));
        let kind = match admission {
            WriteAdmission::Denies(denied) if denied == write => RefusalKind::Denied,
            WriteAdmission::Fails(failing) if failing == write => RefusalKind::WebhookFailed,
            WriteAdmission::DeniesCordon(denied) if cordons(denied) => RefusalKind::Denied,
            WriteAdmission::Denies(_) | WriteAdmission::Fails(_) | WriteAdmission::Drops(_) | WriteAdmission::DeniesCordon(_) => {
                return false;
            }
        };
        self.notes_refusal(action, kind, "refused by admission");
        true
    }

    /// What admission leaves of a patch.
    pub(super) fn admitted(&self, patch: &NodePatch) -> NodePatch {
        let Some(WriteAdmission::Drops(part)) = self.admissions.get(&patch.node) else { return patch.clone() };
        let mut admitted = patch.clone();
        if matches!(part, PatchPart::Labels | PatchPart::Everything) {
            admitted.labels.clear();
        }
        if matches!(part, PatchPart::Annotations | PatchPart::Everything) {
            admitted.annotations.clear();
        }
        if matches!(part, PatchPart::Cordon | PatchPart::Everything) {
            admitted.unschedulable = None;
        }
        admitted
    }

    /// A patch was accepted; `false`: not all of it.
    pub(super) fn was_admitted(&mut self, patch: &NodePatch) -> bool {
        let Some(host) = self.hosts.get(&patch.node) else { return true };
        let node = &host.node;
        let missing = patch.missing(|key| node.labels.get(key), |key| node.annotations.get(key), node.unschedulable);
        if !missing.is_empty() {
            self.notes_refusal(&Action::PatchNode(patch.clone()), RefusalKind::Changed, &missing.join(", "));
        }
        missing.is_empty()
    }

    fn notes_refusal(&mut self, action: &Action, kind: RefusalKind, message: &str) {
        self.report.refuses(action.node());
        self.log(|| format!("{} {kind:?}: {message}", action.node()));
        let now = timestamp(self.now);
        self.hook.memory.note_refusal(action, kind, message, now);
        self.hook.decides_again = true;
    }
}
