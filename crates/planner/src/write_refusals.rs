//! Refused writes: the answers of the API server to the writes of one object, and when they are
//! final. A write that admission denies, that is invalid, or that exceeds a quota fails its node.
//! An unreachable webhook may come back, so such a write is retried a few times. Only a missing
//! right of the hook ends a run; other code handles that.

use jiff::{SignedDuration, Timestamp};

use contract::record::{RefusedWrite, WriteKind};

use super::decide::Action;
use super::memory::RunMemory;

/// Maximum number of attempts of a write if an admission webhook fails.
pub const WEBHOOK_ATTEMPTS: u32 = 6;
/// The first pause after such an attempt, in seconds; it doubles each time.
const FIRST_SECONDS: i64 = 10;
/// The longest pause, in seconds.
const LONGEST_SECONDS: i64 = 60;
/// Attempts older than this no longer count.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of characters of a message that are kept: messages of webhooks can be long, and
/// the run record is small.
const MOST_CHARACTERS: usize = 400;

/// The kind of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The API server denied the write: admission, validation, or a quota.
    Denied,
    /// An admission webhook did not respond, or failed.
    WebhookFailed,
    /// The API server accepted the write without the change: admission changed the patch.
    Changed,
}

/// All refusals of one write of one object. They need not survive the process: a new process tries
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRefusals {
    /// The write.
    pub write: WriteKind,
    /// The last answer.
    pub kind: RefusalKind,
    /// The message of the API server.
    pub message: String,
    /// The patch was to change the node's cordon, and admission changed the patch: the owner of the
    /// cordon may not be recorded.
    pub cordon: bool,
    /// Number of refusals.
    pub times: u32,
    /// Time of the last refusal.
    pub last: Timestamp,
}

impl WriteRefusals {
    /// Returns the refusals after one more.
    #[must_use]
    pub fn after(
        before: Option<&Self>,
        now: Timestamp,
        write: WriteKind,
        kind: RefusalKind,
        message: &str,
    ) -> Self {
        let before = before.filter(|before| before.write == write && before.kind == kind);
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        Self {
            write,
            kind,
            message: message.chars().take(MOST_CHARACTERS).collect(),
            cordon: false,
            times,
            last: now,
        }
    }

    /// Returns the maximum number of attempts.
    pub fn limit(&self) -> u32 {
        match self.kind {
            // Admission would change the same patch in the same way again.
            RefusalKind::Denied | RefusalKind::Changed => 1,
            RefusalKind::WebhookFailed => WEBHOOK_ATTEMPTS,
        }
    }

    /// Returns whether the write is not retried.
    pub fn is_final(&self) -> bool {
        self.times >= self.limit()
    }

    /// Returns when the write may be retried.
    pub fn due(&self) -> Timestamp {
        let seconds = (FIRST_SECONDS << self.times.saturating_sub(1).min(8)).min(LONGEST_SECONDS);
        self.last.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn is_forgotten(&self, now: Timestamp) -> bool {
        now.duration_since(self.last) > FORGOTTEN
    }
}

/// The object of a refused write: the node, and the UID of the pod if the write is about a pod. The
/// pod of an acceptance test that is to be created has its name instead of a UID.
pub type RefusedObject = (String, String);

impl RunMemory {
    /// Records that the API server refused a write.
    pub fn note_refusal(
        &mut self,
        action: &Action,
        kind: RefusalKind,
        message: &str,
        now: Timestamp,
    ) {
        let Some((object, write)) = written(action) else { return };
        let cordon = matches!(action, Action::PatchNode(patch) if patch.unschedulable.is_some());
        let refusal = WriteRefusals::after(self.refusals.get(&object), now, write, kind, message);
        self.refusals.insert(
            object,
            WriteRefusals { cordon: cordon && kind == RefusalKind::Changed, ..refusal },
        );
    }

    /// Records that the API server accepted a write.
    pub fn note_accepted(&mut self, action: &Action) {
        if !self.refusals.is_empty()
            && let Some((object, _)) = written(action)
        {
            self.refusals.remove(&object);
        }
    }

    /// Records that an action was not performed, because an earlier action of the same node failed.
    pub fn note_unbegun(&mut self, action: &Action) {
        match action {
            // The driver was not touched.
            Action::DeleteDriver(deletion) | Action::DeleteAcceptancePod(deletion) => {
                self.issued.remove(&deletion.uid);
            }
            Action::CreateAcceptancePod(creation) => {
                self.issued.remove(&creation.pod);
            }
            Action::ReadTestLog(reading) => {
                self.issued.remove(&reading.request());
            }
            Action::PatchNode(_) | Action::Evict(_) | Action::ReplacePlugin { .. } => {}
        }
    }

    /// Returns the refused write because of which the hook stops the upgrade of the node in this
    /// run, if it is still the same node.
    pub fn refused(&self, node: &observed::ObservedNode) -> Option<&RefusedWrite> {
        self.nodes.get(&node.name).filter(|record| record.uid == node.uid)?.refused.as_ref()
    }
}

/// Returns the object of an action, and the kind of its write. `None`: it only reads a log.
fn written(action: &Action) -> Option<(RefusedObject, WriteKind)> {
    let (pod, write) = match action {
        Action::PatchNode(_) => ("", WriteKind::Node),
        Action::Evict(eviction) => (eviction.uid.as_str(), WriteKind::Eviction),
        Action::DeleteDriver(deletion) => (deletion.uid.as_str(), WriteKind::PodDeletion),
        Action::ReplacePlugin { uid, .. } => (uid.as_str(), WriteKind::PodDeletion),
        Action::CreateAcceptancePod(creation) => (creation.pod.as_str(), WriteKind::AcceptancePod),
        // Its refusal does not fail the node either.
        Action::DeleteAcceptancePod(deletion) => (deletion.uid.as_str(), WriteKind::AcceptancePod),
        Action::ReadTestLog(_) => return None,
    };
    Some(((action.node().to_owned(), pod.to_owned()), write))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(times: u32, kind: RefusalKind) -> WriteRefusals {
        let mut refusal = None;
        for second in 0..times {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second.into());
            refusal = Some(WriteRefusals::after(refusal.as_ref(), at, WriteKind::Node, kind, "no"));
        }
        refusal.expect("at least once")
    }

    #[test]
    fn denied_write_is_final_at_once() {
        assert!(refused(1, RefusalKind::Denied).is_final());
    }

    #[test]
    fn failing_webhook_is_retried_a_few_times() {
        assert!(!refused(WEBHOOK_ATTEMPTS - 1, RefusalKind::WebhookFailed).is_final());
        assert!(refused(WEBHOOK_ATTEMPTS, RefusalKind::WebhookFailed).is_final());
        let pause = |times| {
            let refusal = refused(times, RefusalKind::WebhookFailed);
            refusal.due().duration_since(refusal.last).as_secs()
        };
        assert_eq!([1, 2, 3, 4, 5].map(pause), [10, 20, 40, 60, 60]);
    }

    #[test]
    fn another_kind_of_refusal_is_counted_from_one() {
        let webhook = refused(5, RefusalKind::WebhookFailed);
        let changed = WriteRefusals::after(
            Some(&webhook),
            webhook.last,
            WriteKind::Node,
            RefusalKind::Changed,
            "label",
        );
        assert_eq!(
            (changed.times, changed.is_final()),
            (1, true),
            "a patch that admission changes will be changed again"
        );
    }

    #[test]
    fn long_message_is_cut_for_the_run_record() {
        let refusal = WriteRefusals::after(
            None,
            Timestamp::UNIX_EPOCH,
            WriteKind::Node,
            RefusalKind::Denied,
            &"x".repeat(5000),
        );
        assert_eq!(refusal.message.len(), MOST_CHARACTERS);
    }
}
