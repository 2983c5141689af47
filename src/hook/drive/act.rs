//! Performs what was decided, and tells what came of it.

use crate::cluster::actions::{Done, EvictionAnswer, delete_pod, evict, patch_node, perform};
use crate::cluster::call::CallError;
use crate::cluster::lease::Held;
use crate::contract::duty::Duty;
use crate::rollout::action::NodePatch;
use crate::rollout::decide::Action;
use crate::rollout::pods::pace::{Answer, Busy, History};

use super::{Drive, Ended, Occurrence, Write};

/// What became of an action.
enum Outcome {
    /// It was done, or there was nothing left to do.
    Done,
    /// An eviction.
    Answered(EvictionAnswer),
}

impl Drive<'_> {
    /// Performs the actions: those of one node in their order, up to the first that fails. What is not done now is done by the next decision,
    /// of this pod or of the next one.
    pub(super) async fn act(&mut self, actions: &[Action], held: &Held) -> Result<(), Ended> {
        let client = &self.hook.client;
        let may_write = || held.is_valid() && !self.hook.shutdown.is_requested();
        let act = async |action: &Action| match action {
            Action::ReplacePlugin { namespace, pod, uid, .. } => delete_pod(client, namespace, pod, uid).await.map(|_| Outcome::Done),
            Action::DeleteDriver(deletion) => {
                delete_pod(client, &deletion.namespace, &deletion.pod, &deletion.uid).await.map(|_| Outcome::Done)
            }
            Action::PatchNode(patch) => match patch_node(client, patch).await? {
                // What is behind it was decided on another node than there is: it is decided anew.
                Done::Superseded => Err(CallError::Conflict(format!("node `{}` has changed", patch.node))),
                Done::Now | Done::Already => Ok(Outcome::Done),
            },
            Action::Evict(eviction) => Ok(Outcome::Answered(evict(client, eviction).await)),
        };
        let bounded = async |action: &Action| held.within(act(action)).await.unwrap_or(Err(CallError::Timeout));
        let results = perform(actions, Action::node, may_write, bounded).await;
        self.note_busy(&results);
        for (action, result) in actions.iter().zip(results) {
            match result {
                Some(Ok(Outcome::Done)) => self.done(action).await,
                Some(Ok(Outcome::Answered(answer))) => self.answered(action, answer)?,
                Some(Err(error)) => self.failed(action, &error)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Whether the server is too busy for evictions: many answers of one turn say it once.
    fn note_busy(&mut self, results: &[Option<Result<Outcome, CallError>>]) {
        let answers = results.iter().flatten().filter_map(|result| match result {
            Ok(Outcome::Answered(answer)) => Some(answer),
            Ok(Outcome::Done) | Err(_) => None,
        });
        let answers: Vec<&EvictionAnswer> = answers.collect();
        let busy = answers.iter().filter_map(|answer| match answer {
            EvictionAnswer::Busy { retry_after, .. } => Some(retry_after.map(|pause| pause.as_secs())),
            EvictionAnswer::Accepted
            | EvictionAnswer::Gone
            | EvictionAnswer::Blocked { .. }
            | EvictionAnswer::Denied { .. }
            | EvictionAnswer::NamespaceTerminating
            | EvictionAnswer::Forbidden(_)
            | EvictionAnswer::Refused { .. }
            | EvictionAnswer::Lost(_) => None,
        });
        if let Some(retry_after) = busy.max() {
            self.memory.busy = Some(Busy::after(self.memory.busy.as_ref(), self.now(), retry_after));
        } else if answers.iter().any(|answer| !matches!(answer, EvictionAnswer::Lost(_))) {
            self.memory.busy = None;
        }
    }

    async fn done(&mut self, action: &Action) {
        self.unwritten_since.remove(&kind(action));
        if let Action::ReplacePlugin { plugin, .. } = action {
            self.hook.metrics.replaced(*plugin);
        }
        match action {
            Action::ReplacePlugin { node, pod, cause, .. } if self.hook.settings.has(Duty::Drive) => {
                tracing::info!(node, pod, cause, "replacing a stale plugin pod");
            }
            Action::ReplacePlugin { plugin, node, pod, cause, .. } => {
                self.record(Occurrence::PluginReplaced { plugin: *plugin, node, pod, cause }).await;
            }
            Action::DeleteDriver(deletion) => {
                tracing::info!(node = deletion.node, pod = deletion.pod, "the driver pod is being replaced");
            }
            Action::PatchNode(patch) => self.patched(patch).await,
            Action::Evict(_) => {}
        }
    }

    async fn patched(&self, patch: &NodePatch) {
        let state = patch.labels.get(self.hook.settings.driver.traits().own_state_label);
        let state = state.map(|state| state.as_deref().unwrap_or("done"));
        tracing::info!(node = patch.node, state, cordon = patch.unschedulable, "the node was changed");
        if let Some(news) = &patch.news {
            self.record(Occurrence::NodeNews { node: &patch.node, news }).await;
        }
    }

    /// Remembers the answer: it says when the pod is asked to leave again.
    fn answered(&mut self, action: &Action, answer: EvictionAnswer) -> Result<(), Ended> {
        let Action::Evict(eviction) = action else { return Ok(()) };
        let pod = format!("{}/{}", eviction.namespace, eviction.pod);
        let seconds = |pause: Option<std::time::Duration>| pause.map(|pause| pause.as_secs());
        let (sorted, message) = match answer {
            EvictionAnswer::Accepted | EvictionAnswer::NamespaceTerminating => (Answer::Accepted, None),
            EvictionAnswer::Gone => {
                self.memory.evictions.remove(&eviction.uid);
                return Ok(());
            }
            EvictionAnswer::Blocked { retry_after, message } => (Answer::Blocked { retry_after: seconds(retry_after) }, Some(message)),
            EvictionAnswer::Denied { message } => (Answer::Denied, Some(message)),
            EvictionAnswer::Busy { message, .. } => (Answer::Busy, Some(message)),
            EvictionAnswer::Forbidden(message) => {
                if let Some(ended) = self.unwritable(Write::Eviction, &CallError::Forbidden(message.clone())) {
                    return Err(ended);
                }
                (Answer::Refused, Some(message))
            }
            EvictionAnswer::Refused { code, message } => (Answer::Refused, Some(format!("{code}: {message}"))),
            EvictionAnswer::Lost(message) => (Answer::Lost, Some(message)),
        };
        self.hook.metrics.evicted(sorted.name());
        match message {
            None => tracing::info!(node = eviction.node, pod = &*pod, "the pod is being evicted"),
            Some(message) => tracing::info!(node = eviction.node, pod = &*pod, message, "the pod was not evicted; trying again"),
        }
        let now = self.now();
        if sorted == Answer::Accepted
            && let Some(record) = self.memory.nodes.get_mut(&eviction.node)
        {
            record.evicts(pod, now);
        }
        let history = History::after(self.memory.evictions.get(&eviction.uid), now, sorted);
        self.memory.evictions.insert(eviction.uid.clone(), history);
        Ok(())
    }

    /// A later decision repeats it.
    fn failed(&mut self, action: &Action, error: &CallError) -> Result<(), Ended> {
        tracing::warn!(node = action.node(), what = ?kind(action), %error, "unable to write; trying again");
        self.hook.metrics.failed_write(kind(action).name());
        self.unwritable(kind(action), error).map_or(Ok(()), Err)
    }
}

fn kind(action: &Action) -> Write {
    match action {
        Action::ReplacePlugin { .. } | Action::DeleteDriver(_) => Write::Deletion,
        Action::PatchNode(_) => Write::Node,
        Action::Evict(_) => Write::Eviction,
    }
}
