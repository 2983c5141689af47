//! The limits on starting nodes if the hook decides: NVIDIA's two limits without their defects, a
//! limit for each topology group, and a pause between nodes. Failed nodes are unavailable and free
//! their slot. A node that is already cordoned does not add to the unavailable nodes, but needs a
//! slot.

use std::collections::BTreeMap;
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

/// The remaining room under the limits. Every start is recorded, so that one decision cannot exceed
/// the limits.
#[derive(Clone, Debug)]
pub struct StartThrottle<'a> {
    limits: NodeLimits,
    in_progress: SlotHolders<'a>,
    unavailable: SlotHolders<'a>,
    /// The unavailable nodes that are not being upgraded: the end of an upgrade does not make them
    /// available.
    idle: SlotHolders<'a>,
    groups: BTreeMap<&'a str, TopologyGroup<'a>>,
}

/// The nodes that use up a limit. Their list is created once for all nodes that are refused because
/// of them.
#[derive(Clone, Debug, Default)]
struct SlotHolders<'a> {
    names: Vec<&'a str>,
    list: Option<Arc<[String]>>,
}

impl<'a> SlotHolders<'a> {
    fn push(&mut self, name: &'a str) {
        self.names.push(name);
        self.list = None;
    }

    fn list(&mut self) -> Arc<[String]> {
        let names = &self.names;
        Arc::clone(
            self.list.get_or_insert_with(|| names.iter().map(|name| (*name).to_owned()).collect()),
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
struct TopologyGroup<'a> {
    limit: usize,
    unavailable: SlotHolders<'a>,
    idle: SlotHolders<'a>,
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

impl<'a> StartThrottle<'a> {
    /// Creates the limits for these nodes, each with its name.
    pub fn new(upgrade: &UpgradeSettings, members: &[(&'a str, &'a ThrottledNode)]) -> Self {
        let total = members.len();
        let policy = &upgrade.policy;
        let parallel = if policy.max_parallel_upgrades == 0 {
            total
        } else {
            policy.max_parallel_upgrades as usize
        };
        let unavailable = policy.max_unavailable.map_or(total, |count| count.resolve(total));
        let holders = |wanted: fn(&ThrottledNode) -> bool| SlotHolders {
            names: members
                .iter()
                .filter(|(_, member)| wanted(member))
                .map(|(name, _)| *name)
                .collect(),
            list: None,
        };
        let is_idle = |member: &ThrottledNode| member.unavailable && !member.in_progress;
        let mut groups: BTreeMap<&str, (usize, SlotHolders<'_>, SlotHolders<'_>)> = BTreeMap::new();
        if upgrade.topology.is_some() {
            for (name, member) in members {
                let Some(group) = &member.group else { continue };
                let entry = groups.entry(group).or_default();
                entry.0 += 1;
                entry.1.names.extend(member.unavailable.then_some(*name));
                entry.2.names.extend(is_idle(member).then_some(*name));
            }
        }
        let limit = |size: usize| {
            upgrade
                .topology
                .as_ref()
                .map_or(size, |topology| topology.max_unavailable.resolve(size))
        };
        let group = |(group, (size, unavailable, idle))| {
            (group, TopologyGroup { limit: limit(size), unavailable, idle })
        };
        Self {
            limits: NodeLimits { total, parallel, unavailable },
            in_progress: holders(|member| member.in_progress),
            unavailable: holders(|member| member.unavailable),
            idle: holders(is_idle),
            groups: groups.into_iter().map(group).collect(),
        }
    }

    /// The limits, as numbers of nodes.
    pub fn limits(&self) -> NodeLimits {
        self.limits
    }

    /// Returns the limit that would prevent the node's start even after every upgrade in progress
    /// has ended: it is used up by nodes that failed, that have a foreign cordon, or that are not
    /// ready.
    pub fn standing(&mut self, member: &ThrottledNode) -> Option<StartRefusal> {
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
        let group = member.group.as_deref()?;
        let state =
            self.groups.get_mut(group).filter(|state| state.idle.names.len() >= state.limit)?;
        Some(StartRefusal::Group {
            group: group.to_owned(),
            limit: state.limit,
            holders: state.idle.list(),
        })
    }

    /// Starts a node.
    ///
    /// # Errors
    /// The first limit that forbids the start.
    pub fn start(&mut self, name: &'a str, member: &'a ThrottledNode) -> Result<(), StartRefusal> {
        let NodeLimits { total, parallel, unavailable } = self.limits;
        if unavailable == 0 {
            return Err(StartRefusal::Paused { key: "maxUnavailable" });
        }
        if self.in_progress.names.len() >= parallel {
            return Err(StartRefusal::Slots { limit: parallel, holders: self.in_progress.list() });
        }
        if !member.unavailable {
            if self.unavailable.names.len() >= unavailable {
                return Err(StartRefusal::Unavailable {
                    limit: unavailable,
                    total,
                    holders: self.unavailable.list(),
                });
            }
            if let Some((group, state)) =
                member.group.as_deref().and_then(|group| Some((group, self.groups.get_mut(group)?)))
            {
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
