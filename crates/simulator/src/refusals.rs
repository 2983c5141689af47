//! Admission: which writes of the hook the API server refuses or changes.

use std::collections::HashMap;
use std::fmt;

use contract::record::WriteKind;
use planner::action::NodePatch;
use planner::decide::Action;
use planner::write_refusals::RefusalKind;

/// A part of a node patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchPart {
    /// All labels.
    Labels,
    /// All annotations.
    Annotations,
    /// `spec.unschedulable`.
    Cordon,
    /// All of these parts.
    Everything,
}

/// What admission does with the hook's writes to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteAdmission {
    /// Denies writes of this kind, as a policy, a webhook, validation or a quota does.
    Denies(WriteKind),
    /// Fails for writes of this kind, because a webhook does not answer.
    Fails(WriteKind),
    /// Accepts patches of the node without this part.
    Drops(PatchPart),
    /// Denies patches that set the cordon (`true`) or remove it (`false`).
    DeniesCordon(bool),
}

impl fmt::Display for WriteAdmission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denies(write) => write!(out, "admission denies {write}"),
            Self::Fails(write) => write!(out, "the webhook for {write} does not answer"),
            Self::Drops(part) => write!(out, "admission drops {part:?} of patches of the node"),
            Self::DeniesCordon(true) => write!(out, "admission denies the cordon"),
            Self::DeniesCordon(false) => write!(out, "admission denies the removal of the cordon"),
        }
    }
}

/// The admission of each node whose writes are not all admitted.
#[derive(Debug, Default)]
pub(super) struct WriteAdmissions(HashMap<String, WriteAdmission>);

impl WriteAdmissions {
    /// Sets the admission of a node. `None`: all writes of the node are admitted.
    pub(super) fn set(&mut self, node: String, admission: Option<WriteAdmission>) {
        match admission {
            Some(admission) => drop(self.0.insert(node, admission)),
            None => drop(self.0.remove(&node)),
        }
    }

    /// Whether all writes of the node are admitted unchanged.
    pub(super) fn admits_all(&self, node: &str) -> bool {
        !self.0.contains_key(node)
    }

    /// Whether patches of the node lose a part.
    pub(super) fn drops_parts(&self, node: &str) -> bool {
        matches!(self.0.get(node), Some(WriteAdmission::Drops(_)))
    }

    /// Returns how the action is refused, if it is.
    pub(super) fn refusal(&self, action: &Action) -> Option<RefusalKind> {
        let admission = self.0.get(action.node())?;
        let write = match action {
            Action::PatchNode(_) => WriteKind::Node,
            Action::Evict(_) => WriteKind::Eviction,
            Action::DeleteDriver(_)
            | Action::ReplacePlugin { .. }
            | Action::DeleteAcceptancePod(_) => WriteKind::PodDeletion,
            Action::CreateAcceptancePod(_) => WriteKind::AcceptancePod,
            // Admission applies only to writes.
            Action::ReadTestLog(_) => return None,
        };
        let cordons = |wanted: bool| matches!(action, Action::PatchNode(patch) if patch.unschedulable == Some(wanted));
        match *admission {
            WriteAdmission::Denies(denied) => (denied == write).then_some(RefusalKind::Denied),
            WriteAdmission::Fails(failing) => {
                (failing == write).then_some(RefusalKind::WebhookFailed)
            }
            WriteAdmission::DeniesCordon(denied) => cordons(denied).then_some(RefusalKind::Denied),
            WriteAdmission::Drops(_) => None,
        }
    }

    /// Returns the part of a patch that admission accepts.
    pub(super) fn admitted(&self, patch: &NodePatch) -> NodePatch {
        let mut admitted = patch.clone();
        let Some(WriteAdmission::Drops(part)) = self.0.get(&patch.node) else { return admitted };
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cordon() -> NodePatch {
        NodePatch { node: "gpu-0".to_owned(), unschedulable: Some(true), ..NodePatch::default() }
    }

    #[test]
    fn denied_cordon_leaves_other_patches_alone() {
        let mut admissions = WriteAdmissions::default();
        admissions.set("gpu-0".to_owned(), Some(WriteAdmission::DeniesCordon(true)));
        assert_eq!(admissions.refusal(&Action::PatchNode(cordon())), Some(RefusalKind::Denied));
        let uncordon = NodePatch { unschedulable: Some(false), ..cordon() };
        assert_eq!(admissions.refusal(&Action::PatchNode(uncordon)), None);
        admissions.set("gpu-0".to_owned(), None);
        assert_eq!(admissions.refusal(&Action::PatchNode(cordon())), None);
    }

    #[test]
    fn dropped_cordon_is_missing_from_the_admitted_patch() {
        let mut admissions = WriteAdmissions::default();
        admissions.set("gpu-0".to_owned(), Some(WriteAdmission::Drops(PatchPart::Cordon)));
        assert_eq!(admissions.admitted(&cordon()).unschedulable, None);
        assert!(admissions.drops_parts("gpu-0") && !admissions.admits_all("gpu-0"));
    }
}
