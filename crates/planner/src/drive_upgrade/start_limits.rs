//! The limits on starting nodes if the hook decides: NVIDIA's two limits without their defects, a
//! limit for each topology group, and a pause between nodes. Failed nodes are unavailable and free
//! their slot. A node that is already cordoned does not add to the unavailable nodes, but needs a
//! slot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use contract::policy::UpgradeSettings;

/// The properties of a node that limits depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThrottledNode {
    /// Whether it is being upgraded.
    pub in_progress: bool,
    /// Whether it cannot take workloads, or soon will not: in progress, cordoned (by any user or
    /// program), not ready, or failed after its driver was changed.
    pub unavailable: bool,
    /// The value of the topology label.
    pub group: Option<String>,
}

/// The properties of all nodes, as far as limits depend on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThrottledFleet {
    /// All nodes.
    all: ThrottledGroup,
    /// The nodes of each topology group.
    groups: BTreeMap<String, ThrottledGroup>,
}

/// Nodes that share limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ThrottledGroup {
    size: usize,
    in_progress: BTreeSet<Arc<str>>,
    unavailable: BTreeSet<Arc<str>>,
    /// The unavailable nodes that are not being upgraded: the end of an upgrade does not make them
    /// available.
    idle: BTreeSet<Arc<str>>,
}

impl ThrottledGroup {
    fn add(&mut self, name: &Arc<str>, node: &ThrottledNode) {
        self.size += 1;
        let idle = node.unavailable && !node.in_progress;
        for (set, is_in) in [
            (&mut self.in_progress, node.in_progress),
            (&mut self.unavailable, node.unavailable),
            (&mut self.idle, idle),
        ] {
            if is_in {
                set.insert(Arc::clone(name));
            }
        }
    }

    fn remove(&mut self, name: &str) {
        self.size = self.size.saturating_sub(1);
        for set in [&mut self.in_progress, &mut self.unavailable, &mut self.idle] {
            set.remove(name);
        }
    }
}

impl ThrottledFleet {
    /// Adds a node.
    pub(crate) fn add(&mut self, name: &Arc<str>, node: &ThrottledNode) {
        self.all.add(name, node);
        if let Some(group) = &node.group {
            self.groups.entry(group.clone()).or_default().add(name, node);
        }
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.all.size
    }

    /// Returns the number of nodes in progress.
    pub(crate) fn in_progress(&self) -> usize {
        self.all.in_progress.len()
    }

    /// Removes a node, as it was added.
    pub(crate) fn remove(&mut self, name: &str, node: &ThrottledNode) {
        self.all.remove(name);
        let Some(key) = &node.group else { return };
        let Some(group) = self.groups.get_mut(key) else { return };
        group.remove(name);
        if group.size == 0 {
            self.groups.remove(key);
        }
    }
}

/// The remaining room under the limits. Every start is recorded, so that one decision cannot exceed
/// the limits.
#[derive(Clone, Debug)]
pub(crate) struct StartThrottle<'a> {
    upgrade: &'a UpgradeSettings,
    /// Two disjoint parts of the fleet.
    fleet: [&'a ThrottledFleet; 2],
    limits: NodeLimits,
    in_progress: SlotHolders,
    unavailable: SlotHolders,
    idle: SlotHolders,
    /// The groups that were asked for.
    groups: BTreeMap<&'a str, TopologyGroup>,
}

/// The nodes that use up a limit. Their list is created once for all nodes that are refused because
/// of them.
#[derive(Clone, Debug, Default)]
struct SlotHolders {
    names: Vec<Arc<str>>,
    list: Option<Arc<[String]>>,
}

impl SlotHolders {
    /// Merges two sorted sets.
    fn merged(sets: [Option<&BTreeSet<Arc<str>>>; 2]) -> Self {
        let mut names: Vec<Arc<str>> = sets.into_iter().flatten().flatten().cloned().collect();
        names.sort_unstable();
        Self { names, list: None }
    }

    fn push(&mut self, name: &Arc<str>) {
        self.names.push(Arc::clone(name));
        self.list = None;
    }

    fn list(&mut self) -> Arc<[String]> {
        let names = &self.names;
        Arc::clone(
            self.list.get_or_insert_with(|| names.iter().map(|name| (**name).to_owned()).collect()),
        )
    }
}

/// The limits, as numbers of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// Number of nodes.
    pub total: usize,
    /// Maximum number of nodes in progress.
    pub parallel: usize,
    /// Maximum number of unavailable nodes.
    pub unavailable: usize,
}

#[derive(Clone, Debug)]
struct TopologyGroup {
    limit: usize,
    unavailable: SlotHolders,
    idle: SlotHolders,
}

/// Why a node may not start, with the numbers and the nodes that use up the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(RefusalVariant), vis(pub(crate)), derive(strum::EnumIter))
)]
pub enum StartRefusal {
    /// A limit is zero: no upgrade starts until it is raised.
    Paused {
        /// The key of the limit.
        key: &'static str,
    },
    /// All slots are occupied.
    Slots {
        /// Number of slots.
        limit: usize,
        /// The nodes that occupy them.
        holders: Arc<[String]>,
    },
    /// The limit of unavailable nodes is reached.
    Unavailable {
        /// The limit.
        limit: usize,
        /// Number of nodes.
        total: usize,
        /// The unavailable nodes.
        holders: Arc<[String]>,
    },
    /// The limit of unavailable nodes in the node's topology group is reached.
    Group {
        /// The group.
        group: String,
        /// The limit of the group.
        limit: usize,
        /// The unavailable nodes.
        holders: Arc<[String]>,
    },
}

impl StartRefusal {
    /// Forgets which nodes reach the limit: they change all the time.
    pub(crate) fn forget_holders(&mut self) {
        match self {
            Self::Paused { .. } => {}
            Self::Slots { holders, .. }
            | Self::Unavailable { holders, .. }
            | Self::Group { holders, .. } => *holders = Arc::default(),
        }
    }
}

impl<'a> StartThrottle<'a> {
    /// Creates the limits for the nodes of two disjoint parts of the fleet.
    pub(crate) fn new(upgrade: &'a UpgradeSettings, fleet: [&'a ThrottledFleet; 2]) -> Self {
        let total = fleet.iter().map(|part| part.all.size).sum();
        let policy = &upgrade.policy;
        let parallel = if policy.max_parallel_upgrades == 0 {
            total
        } else {
            policy.max_parallel_upgrades as usize
        };
        let unavailable = policy.max_unavailable.map_or(total, |count| count.resolve(total));
        let [one, other] = fleet.map(|part| &part.all);
        Self {
            upgrade,
            fleet,
            limits: NodeLimits { total, parallel, unavailable },
            in_progress: SlotHolders::merged([Some(&one.in_progress), Some(&other.in_progress)]),
            unavailable: SlotHolders::merged([Some(&one.unavailable), Some(&other.unavailable)]),
            idle: SlotHolders::merged([Some(&one.idle), Some(&other.idle)]),
            groups: BTreeMap::new(),
        }
    }

    /// Returns the group of a node, if groups have limits.
    fn group(&mut self, member: &'a ThrottledNode) -> Option<(&'a str, &mut TopologyGroup)> {
        let limit = self.upgrade.topology.as_ref()?.max_unavailable;
        let name = member.group.as_deref()?;
        let [one, other] = self.fleet.map(|part| part.groups.get(name));
        let group = self.groups.entry(name).or_insert_with(|| {
            let size = one.into_iter().chain(other).map(|group| group.size).sum();
            let merged = |set: fn(&ThrottledGroup) -> &BTreeSet<Arc<str>>| {
                SlotHolders::merged([one.map(set), other.map(set)])
            };
            TopologyGroup {
                limit: limit.resolve(size),
                unavailable: merged(|group| &group.unavailable),
                idle: merged(|group| &group.idle),
            }
        });
        Some((name, group))
    }

    /// Returns the limit that would prevent the node's start even after every upgrade in progress
    /// has ended: it is used up by nodes that failed, that have a foreign cordon, or that are not
    /// ready.
    pub(crate) fn standing(&mut self, member: &'a ThrottledNode) -> Option<StartRefusal> {
        let NodeLimits { total, unavailable, .. } = self.limits;
        if unavailable == 0 {
            return Some(StartRefusal::Paused { key: "maxUnavailable" });
        }
        if member.unavailable {
            return None;
        }
        if self.idle.names.len() >= unavailable {
            return Some(StartRefusal::Unavailable {
                limit: unavailable,
                total,
                holders: self.idle.list(),
            });
        }
        let (name, group) = self.group(member)?;
        (group.idle.names.len() >= group.limit).then(|| StartRefusal::Group {
            group: name.to_owned(),
            limit: group.limit,
            holders: group.idle.list(),
        })
    }

    /// Returns the limit that forbids the start of every node.
    fn refusal_of_all(&mut self) -> Option<StartRefusal> {
        let NodeLimits { parallel, unavailable, .. } = self.limits;
        if unavailable == 0 {
            return Some(StartRefusal::Paused { key: "maxUnavailable" });
        }
        (self.in_progress.names.len() >= parallel)
            .then(|| StartRefusal::Slots { limit: parallel, holders: self.in_progress.list() })
    }

    /// Returns the limit that forbids the start of every available node.
    pub(crate) fn refusal_of_available(&mut self) -> Option<StartRefusal> {
        let NodeLimits { total, unavailable: limit, .. } = self.limits;
        self.refusal_of_all().or_else(|| {
            (self.unavailable.names.len() >= limit).then(|| StartRefusal::Unavailable {
                limit,
                total,
                holders: self.unavailable.list(),
            })
        })
    }

    /// Starts a node.
    ///
    /// # Errors
    /// The first limit that forbids the start.
    pub(crate) fn start(
        &mut self,
        name: &Arc<str>,
        member: &'a ThrottledNode,
    ) -> Result<(), StartRefusal> {
        let refusal =
            if member.unavailable { self.refusal_of_all() } else { self.refusal_of_available() };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        if !member.unavailable {
            if let Some((group, state)) = self.group(member) {
                if state.unavailable.names.len() >= state.limit {
                    return Err(StartRefusal::Group {
                        group: group.to_owned(),
                        limit: state.limit,
                        holders: state.unavailable.list(),
                    });
                }
                state.unavailable.push(name);
            }
            self.unavailable.push(name);
        }
        self.in_progress.push(name);
        Ok(())
    }
}
