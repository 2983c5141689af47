//! The halts that `gpu-rollout resume` ends, and the failed nodes that a user takes as proven.

use crate::printer::Printer;
use contract::exit::ExitCode;
use contract::record::proof::Halted;
use contract::settings::Settings;
use contract::user_request::{MOST_NODES, UserRequest};
use diagnostics::nearest::nearest;
use ops::observe::RolloutSnapshot;
use ops::proven_nodes::{NotProvable, ProvableNode, open_halt, provable_in_any};
use planner::reason::upgrade::UpgradeReason;
use planner::spec::driver_identity;

/// What `resume` does in each rollout, apart from pauses.
pub(super) struct EndedHalts<'s> {
    rollouts: Vec<RolloutResumption<'s>>,
    /// Whether the user named nodes with `--accept`: the other rollouts then stay as they are.
    is_about_nodes: bool,
}

/// What `resume` does in one rollout.
struct RolloutResumption<'s> {
    snapshot: &'s RolloutSnapshot,
    /// The halt, if there is one that no user has ended yet.
    halt: Option<&'s Halted>,
    /// The nodes that the user takes as proven.
    accepted: Vec<ProvableNode>,
}

/// Why nodes cannot be taken as proven.
pub(super) enum AcceptRefusal {
    /// A request cannot name so many nodes.
    TooMany(usize),
    /// This node cannot, with a node of a similar name if it does not exist.
    Node(String, NotProvable, Option<String>),
}

impl<'s> EndedHalts<'s> {
    /// Finds the halts of rollouts. `accept`: the nodes of `--accept`.
    ///
    /// # Errors
    /// A node cannot be taken as proven.
    pub(super) fn new(
        snapshots: &'s [RolloutSnapshot],
        accept: &[String],
    ) -> Result<Self, AcceptRefusal> {
        if accept.len() > MOST_NODES {
            return Err(AcceptRefusal::TooMany(accept.len()));
        }
        let mut nodes = accept.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        let accepted = provable_in_any(snapshots, &nodes).map_err(|(node, reason)| {
            let names = snapshots.iter().flat_map(|snapshot| snapshot.observed.nodes.keys());
            let similar = nearest(node, names.map(|name| &**name)).map(str::to_owned);
            let similar = similar.filter(|_| reason == NotProvable::Unknown);
            AcceptRefusal::Node(node.to_owned(), reason, similar)
        })?;
        let is_about_nodes = !accept.is_empty();
        let rollouts =
            snapshots.iter().zip(accepted).map(|(snapshot, accepted)| RolloutResumption {
                snapshot,
                halt: open_halt(snapshot).filter(|_| !is_about_nodes || !accepted.is_empty()),
                accepted,
            });
        Ok(Self { rollouts: rollouts.collect(), is_about_nodes })
    }

    /// Returns whether no rollout has halted, and no node is taken as proven.
    pub(super) fn is_empty(&self) -> bool {
        self.rollouts.iter().all(|rollout| rollout.halt.is_none() && rollout.accepted.is_empty())
    }

    /// Prints which halts end, and what that means for their nodes.
    pub(super) fn announce(&self, printer: &mut Printer) {
        for RolloutResumption { snapshot, halt, accepted } in &self.rollouts {
            let title = snapshot.target.title();
            if let Some(halt) = halt {
                let stays = if halt.nodes.iter().all(|node| is_among(accepted, node)) {
                    ""
                } else {
                    "; nodes that you do not accept stay failed and cordoned until you run gpu-rollout retry for them, and do not halt it again"
                };
                printer.note(&format!(
                    "{title}: {}; `resume` ends this halt, and the next run starts more nodes{stays}",
                    UpgradeReason::from(*halt)
                ));
            }
            for ProvableNode { node, failure, is_cordoned, .. } in accepted {
                let then = if *is_cordoned { "; the next run uncordons it" } else { "" };
                printer
                    .note(&format!("{title}: {node}: taken as proven, despite: {failure}{then}"));
            }
        }
    }

    /// Returns the settings of each hook whose record gets the request, with what the request says
    /// there. `request`: without its nodes.
    pub(super) fn requested(
        &self,
        request: &UserRequest,
    ) -> impl Iterator<Item = (&'s Settings, UserRequest)> {
        let is_about_nodes = self.is_about_nodes;
        let concerned = self
            .rollouts
            .iter()
            .filter(move |rollout| !is_about_nodes || !rollout.accepted.is_empty());
        concerned.map(|rollout| {
            let RolloutSnapshot { settings, observed, .. } = rollout.snapshot;
            let accepted = || rollout.accepted.iter();
            let driver = || driver_identity(observed, settings.driver);
            let request = UserRequest {
                halt: rollout.halt.map(|halt| halt.at),
                accepts: accepted().map(|node| (node.node.clone(), node.failed_at)).collect(),
                driver: (!rollout.accepted.is_empty()).then(driver),
                ..request.clone()
            };
            let nodes = accepted().map(|node| node.node.clone()).collect();
            (settings, request.with_nodes(nodes))
        })
    }
}

fn is_among(accepted: &[ProvableNode], name: &str) -> bool {
    accepted.iter().any(|node| node.node == name)
}

impl AcceptRefusal {
    /// Prints the refusal with a hint.
    pub(super) fn print(self, printer: &mut Printer) -> ExitCode {
        match self {
            Self::TooMany(count) => {
                printer.error(
                    &format!("--accept: {count} nodes are too many: at most {MOST_NODES}"),
                    Some("run the command several times"),
                );
                ExitCode::Usage
            }
            Self::Node(node, reason, similar) => {
                let similar = similar.map(|name| format!("did you mean `{name}`?"));
                printer.error(
                    &format!(
                        "--accept: cannot take node `{node}` as proven: {reason}; no changes made"
                    ),
                    similar.as_deref().or(Some(reason.hint())),
                );
                ExitCode::Input
            }
        }
    }
}
