//! How many nodes may be started, where we decide: the vendor's two limits without their defects, a limit for each topology group, and a
//! pause between nodes. Nodes that failed are unavailable and free their slot; a node that is cordoned already adds nothing to what is
//! unavailable, and needs a slot like any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::policy::UpgradeSettings;

/// One node, as far as limits are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThrottledNode {
    /// It is being upgraded.
    pub in_progress: bool,
    /// It cannot take workloads, or will not in a moment: in progress, cordoned by whomever, not ready, failed after its driver was touched.
    pub unavailable: bool,
    /// The value of the topology label.
    pub group: Option<String>,
}

/// What may still be started. Every start is told to it, so that one decision cannot exceed what the last one left.
#[derive(Clone, Debug)]
pub struct StartThrottle<'a> {
    limits: NodeLimits,
    in_progress: SlotHolders<'a>,
    unavailable: SlotHolders<'a>,
    /// Those of them that nobody upgrades: they do not come back by an upgrade's end.
    idle: SlotHolders<'a>,
    groups: BTreeMap<&'a str, TopologyGroup<'a>>,
}

/// The nodes that hold a limit. Their list is made once for all the nodes that are refused because of them.
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

/// The limits in nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// How many nodes there are.
    pub total: usize,
    /// How many may be in progress.
    pub parallel: usize,
    /// How many may be unavailable.
    pub unavailable: usize,
}

#[derive(Clone, Debug)]
struct TopologyGroup<'a> {
    limit: usize,
    unavailable: SlotHolders<'a>,
    idle: SlotHolders<'a>,
}

/// Why a node may not be started, with the numbers and the nodes that hold what it would need.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(RefusalVariant), vis(pub(crate)), derive(strum::EnumIter))
)]
pub enum StartRefusal {
    /// A limit is zero: nothing is started until it is raised.
    Paused {
        /// Which one.
        key: &'static str,
    },
    /// All slots are taken.
    Slots {
        /// How many there are.
        limit: usize,
        /// Who has them.
        holders: Arc<[String]>,
    },
    /// So many nodes are unavailable that not one more may be.
    Unavailable {
        /// How many may be.
        limit: usize,
        /// How many nodes there are.
        total: usize,
        /// Which ones are.
        holders: Arc<[String]>,
    },
    /// The same of the node's group.
    Group {
        /// The group.
        group: String,
        /// How many of it may be.
        limit: usize,
        /// Which ones are.
        holders: Arc<[String]>,
    },
}

impl<'a> StartThrottle<'a> {
    /// The limits over these nodes, each with its name.
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

    /// The limits in nodes.
    pub fn limits(&self) -> NodeLimits {
        self.limits
    }

    /// The limit that would keep the node from being started even when every upgrade under way has ended: nodes fill it that failed, that
    /// somebody has cordoned, or that are not ready.
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

    /// Starts a node, or says why not.
    ///
    /// # Errors
    /// The first limit that forbids it.
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
