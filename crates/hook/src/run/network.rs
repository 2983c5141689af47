//! Task `prepare-network`: one step under the Lease, before the loop. It fails closed: if the NicClusterPolicy cannot be kept, the
//! operator's release must not be deployed.

use std::time::Duration;

use crate::occurrence::Occurrence;
use crate::{EndReason, RunEnd};
use kube_io::call::CallError;
use kube_io::lease::HeldLease;
use kube_io::network;
use planner::retain::{RetainDecision, keeping};

use super::{LoopWrite, RETRY, RunLoop, after, interrupted};

/// How often the annotations are written before whoever takes them off again is given the last word.
const ATTEMPTS: u32 = 3;

impl RunLoop<'_> {
    /// Keeps the NicClusterPolicy, and looks whether it is kept. `Ok(None)`: the Lease was lost.
    pub(super) async fn prepare_network(&mut self, held: &HeldLease) -> Result<Option<RunEnd>, RunEnd> {
        let client = self.hook.client.clone();
        let grace = Duration::from_secs(self.hook.settings.grace_seconds);
        let lost_at = after(self.now(), grace).min(self.memory.deadline);
        let mut written = 0;
        loop {
            if !held.is_valid() {
                return Ok(None);
            }
            if self.hook.shutdown.is_requested() {
                return Err(interrupted());
            }
            let answer = match network::policy(&client).await {
                Ok(policy) => {
                    match (keeping(policy.as_ref(), &self.hook.settings.component, self.hook.settings.component_version.as_deref()), policy)
                    {
                        (RetainDecision::Nothing(_), _) if written > 0 => {
                            return Ok(Some(RunEnd::new(EndReason::NicClusterPolicyKept, "the NicClusterPolicy is kept")));
                        }
                        (RetainDecision::Nothing(why), _) => return Ok(Some(RunEnd::new(EndReason::NothingToDo, why))),
                        // Who deletes it may be about to make it anew.
                        (RetainDecision::Lost, _) if self.now() < lost_at => {
                            tokio::time::sleep(RETRY).await;
                            continue;
                        }
                        (RetainDecision::Lost, _) | (RetainDecision::Annotate(_), None) => {
                            return Err(self
                                .unkept(
                                    EndReason::NicClusterPolicyDeleted,
                                    "the NicClusterPolicy is being deleted; wait until it is gone, or restore it",
                                )
                                .await);
                        }
                        (RetainDecision::Annotate(annotations), Some(_)) if written >= ATTEMPTS => {
                            let names = annotations.into_keys().collect::<Vec<_>>().join(", ");
                            return Err(self
                                .unkept(
                                    EndReason::AnnotationsRemoved,
                                    &format!("the NicClusterPolicy does not keep the annotations {names}: see who takes them off"),
                                )
                                .await);
                        }
                        (RetainDecision::Annotate(annotations), Some(policy)) => {
                            let answer = held.within(network::annotate(&client, &policy, &annotations)).await;
                            answer.unwrap_or(Err(CallError::Timeout)).map(|()| annotations)
                        }
                    }
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(annotations) => {
                    written += 1;
                    self.unwritten_since.remove(&LoopWrite::Annotation);
                    self.record(Occurrence::PolicyKept { annotations: &annotations }).await;
                }
                Err(error) => {
                    if let CallError::Denied { message, .. } = &error {
                        return Err(self
                            .unkept(
                                EndReason::AnnotationsRefused,
                                &format!("the API server refuses to have the NicClusterPolicy annotated: {message}"),
                            )
                            .await);
                    }
                    tracing::warn!(%error, "unable to keep the NicClusterPolicy; trying again");
                    // What has changed, or gone, in between is looked at again.
                    let in_between = matches!(error, CallError::Conflict(_) | CallError::NotFound(_));
                    if !in_between && let Some(ended) = self.unwritable(LoopWrite::Annotation, &error) {
                        return Err(ended);
                    }
                    if self.now() >= self.memory.deadline {
                        return Err(RunEnd::new(
                            EndReason::ApiServerUnreachable,
                            format!("the NicClusterPolicy could not be kept in time: {error}"),
                        ));
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    async fn unkept(&mut self, reason: EndReason, message: &str) -> RunEnd {
        let message = format!("{message}; the network operator's new chart would delete it");
        self.conclude(RunEnd::new(reason, message)).await
    }

    /// Ends a run that has no loop: the verdict is recorded and told. Unrecorded, a replacement pod comes to the same one.
    pub(super) async fn conclude(&mut self, ended: RunEnd) -> RunEnd {
        let verdict = ended.into_verdict(self.now());
        let mut run = self.run_of(&self.memory);
        run.verdict = Some(verdict.clone());
        if let Err(error) = self.store.write(&run, &self.memory.nodes).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "unable to write the run record");
        }
        self.record(Occurrence::Ended { verdict: &verdict }).await;
        verdict.into()
    }
}
