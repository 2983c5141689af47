//! The actions between two passes. Most of them let an upgrade continue, and some of them block it.

use anyhow::Result;
use contract::names;
use jiff::Timestamp;
use nvidia_upgrade::ControllerState;
use serde_json::{Value, json};

use super::world::World;
use nodes::ready_condition;
use pods::unready;

mod nodes;
mod pods;

pub(super) use pods::ready;

/// The actions between two passes.
pub(super) struct Done {
    pub(super) actions: Vec<String>,
    /// Whether the controller's process was killed.
    pub(super) killed: bool,
}

/// An action. Actions that occur more than once in the lists below are drawn more often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    ReplaceDrivers,
    ReadyDrivers,
    ReadyValidators,
    Reap,
    Bump,
    BumpDigest,
    BreakDriver,
    CrashDriver,
    BreakValidator,
    LoseValidator,
    SecondValidator,
    Cordon,
    Uncordon,
    Skip,
    Ready,
    AddWorkload,
    FinishWorkload,
    Guard,
    Unguard,
    Policy,
    State,
    Request,
    SafeLoad,
    StartTimes,
    Note,
    Orphan,
    LoseHash,
    RollBack,
    Join,
    Leave,
    Miscount,
    Disown,
    Sandbox,
    Kill,
}

impl Action {
    /// Whether it may end running evictions.
    fn may_end_evictions(self) -> bool {
        matches!(self, Self::Reap | Self::Unguard | Self::FinishWorkload | Self::Leave)
    }

    /// Whether its result depends on which evictions have ended.
    fn depends_on_evictions(self) -> bool {
        matches!(self, Self::State | Self::Kill)
    }
}

const OFTEN: [Action; 4] =
    [Action::ReplaceDrivers, Action::ReadyDrivers, Action::ReadyValidators, Action::Reap];
const RARELY: [Action; 38] = [
    Action::Bump,
    Action::Bump,
    Action::Bump,
    Action::BumpDigest,
    Action::BumpDigest,
    Action::BumpDigest,
    Action::BreakDriver,
    Action::CrashDriver,
    Action::BreakValidator,
    Action::LoseValidator,
    Action::SecondValidator,
    Action::Cordon,
    Action::Uncordon,
    Action::Skip,
    Action::Ready,
    Action::AddWorkload,
    Action::AddWorkload,
    Action::AddWorkload,
    Action::FinishWorkload,
    Action::FinishWorkload,
    Action::Guard,
    Action::Unguard,
    Action::Unguard,
    Action::Policy,
    Action::State,
    Action::Request,
    Action::SafeLoad,
    Action::StartTimes,
    Action::Note,
    Action::Orphan,
    Action::LoseHash,
    Action::RollBack,
    Action::Join,
    Action::Leave,
    Action::Miscount,
    Action::Disown,
    Action::Sandbox,
    Action::Kill,
];

impl World<'_> {
    /// Performs some random actions.
    pub(super) async fn act(&mut self) -> Result<Done> {
        let mut done = Done { actions: Vec::new(), killed: false };
        // Corrects wrong counts of earlier actions, because a wrong count ends every pass.
        for place in 0..self.daemon_sets.len() {
            self.count(place, 0).await?;
        }
        let mut actions = vec![self.draw.one(&OFTEN), self.draw.one(&OFTEN), self.draw.one(&OFTEN)];
        for _ in 0..self.draw.below(3) {
            actions.push(self.draw.one(&RARELY));
        }
        if actions.iter().any(|action| action.may_end_evictions()) {
            actions.retain(|action| !action.depends_on_evictions());
        }
        for action in actions {
            let what = self.happens(action).await?;
            done.killed |= action == Action::Kill;
            done.actions.push(format!("{action:?} {what}"));
        }
        Ok(done)
    }

    fn any_node(&mut self) -> Option<String> {
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        self.draw.of(&names).cloned()
    }

    async fn happens(&mut self, action: Action) -> Result<String> {
        let Some(node) = self.any_node() else {
            self.join().await?;
            return Ok("joined, because there was no node".to_owned());
        };
        let traits = self.of.driver().traits();
        match action {
            Action::ReplaceDrivers => self.replace_drivers().await?,
            Action::ReadyDrivers => self.ready_drivers().await?,
            Action::ReadyValidators => self.ready_validators().await?,
            Action::Reap => self.reap().await?,
            Action::Bump | Action::BumpDigest => {
                let place = self.draw.below(self.daemon_sets.len());
                if action == Action::BumpDigest {
                    self.change_digest(place).await?;
                }
                self.revise(place).await?;
            }
            Action::RollBack => {
                let place = self.draw.below(self.daemon_sets.len());
                self.roll_back(place).await?;
            }
            // A pod without the hash ends every pass until it is replaced. A few such worlds are
            // enough.
            Action::LoseHash if !self.draw.once_in(4) => {}
            Action::LoseHash => {
                for name in &self.hosts[&node].drivers {
                    let label = json!({"metadata": {"labels": {"controller-revision-hash": null}}});
                    self.server.merge_if_there(&self.pod(name), &label).await?;
                }
            }
            Action::BreakDriver => {
                self.status_of(&node, false, &unready(0), |host| &host.drivers).await?;
            }
            Action::CrashDriver => {
                let restarts = self.draw.one(&[10, 11, 12]);
                self.status_of(&node, false, &unready(restarts), |host| &host.drivers).await?;
            }
            Action::BreakValidator => {
                self.status_of(&node, false, &unready(0), |host| &host.validators).await?;
            }
            Action::LoseValidator => self.lose_validators(&node).await?,
            Action::SecondValidator => self.add_validator(&node).await?,
            Action::Cordon => {
                self.patch_node(&node, json!({"spec": {"unschedulable": true}})).await?;
            }
            Action::Uncordon => {
                self.patch_node(&node, json!({"spec": {"unschedulable": false}})).await?;
            }
            Action::Skip => {
                let value =
                    self.draw.one(&[json!("true"), json!("false"), Value::Null, Value::Null]);
                self.patch_node(&node, json!({"metadata": {"labels": {traits.skip_label: value}}}))
                    .await?;
            }
            Action::Ready => {
                let conditions = self.draw.one(&[
                    json!([]),
                    ready_condition("True"),
                    ready_condition("False"),
                    ready_condition("Unknown"),
                ]);
                self.server
                    .merge(
                        &format!("/api/v1/nodes/{node}/status"),
                        &json!({"status": {"conditions": conditions}}),
                    )
                    .await?;
            }
            Action::AddWorkload => self.add_workload(&node).await?,
            Action::FinishWorkload => self.finish_workload(&node).await?,
            Action::Guard => self.guard().await?,
            Action::Unguard => self.unguard().await?,
            Action::Policy => self.change_policy().await?,
            Action::State => {
                let mut states: Vec<Value> =
                    ControllerState::ALL.into_iter().map(|state| state.label().into()).collect();
                states.extend([Value::Null, "what-is-this".into()]);
                let state = self.draw.one(&states);
                self.patch_node(
                    &node,
                    json!({"metadata": {"labels": {traits.state_label: state}}}),
                )
                .await?;
            }
            Action::Request => {
                let value = self.draw.one(&["true", "true", "yes"]);
                self.patch_node(
                    &node,
                    json!({"metadata": {"annotations": {traits.requested: value}}}),
                )
                .await?;
            }
            Action::SafeLoad => {
                let value = self.draw.one(&[json!("true"), json!(""), Value::Null]);
                self.patch_node(
                    &node,
                    json!({"metadata": {"annotations": {traits.safe_load: value}}}),
                )
                .await?;
            }
            Action::StartTimes => {
                // An exceeded timeout, one that is not exceeded, or an invalid time.
                let ago = |seconds: i64| (Timestamp::now().as_second() - seconds).to_string();
                let value = self.draw.one(&[ago(5_000), ago(5_000), ago(200), "soon".to_owned()]);
                let drawn = self.draw.one(&[traits.wait_start, traits.validation_start]);
                // Nodes in validation are rare, so one always gets an exceeded timeout.
                let validates = !self.validating().await?.is_empty();
                let (key, value) =
                    if validates { (traits.validation_start, ago(5_000)) } else { (drawn, value) };
                self.patch_node(&node, json!({"metadata": {"annotations": {key: value}}})).await?;
                if key == traits.validation_start {
                    self.delay_validations(&value).await?;
                }
            }
            Action::Note => {
                let key = self.draw.one(&[traits.initially_unschedulable, traits.requestor]);
                let value = self.draw.one(&[json!("true"), json!("whatever"), Value::Null]);
                self.patch_node(&node, json!({"metadata": {"annotations": {key: value}}})).await?;
            }
            Action::Sandbox => self.sandbox().await?,
            Action::Orphan => self.add_driver(&node, false).await?,
            Action::Join => self.join().await?,
            Action::Leave => self.leave(&node).await?,
            Action::Miscount => {
                let place = self.draw.below(self.daemon_sets.len());
                let more = self.draw.one(&[-1, 1]);
                self.count(place, more).await?;
            }
            Action::Disown => {
                let owner = self.daemon_sets[self.hosts[&node].daemon_set].owner;
                let value = self.draw.one(&[json!(owner), Value::Null, json!("absent")]);
                if owner.is_some() {
                    self.patch_node(
                        &node,
                        json!({"metadata": {"labels": {names::DRIVER_OWNER_LABEL: value}}}),
                    )
                    .await?;
                }
            }
            Action::Kill => {}
        }
        Ok(node)
    }
}
