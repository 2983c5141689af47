//! The rules of the controller: the policy of the live custom resource.

use contract::count::Count;
use contract::policy::Policy;

use observed::LiveUpgradePolicy;

/// The live policy as the controller takes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRules {
    /// `autoUpgrade`: without it nothing is done.
    pub auto_upgrade: bool,
    /// The policy. `pod_deletion: None` is an error of the controller's as soon as a node comes to that step.
    pub policy: Policy,
    /// The value of `maxUnavailable`, if it is not a number of nodes.
    pub unreadable: Option<String>,
    /// The policy has no `drain`, not even one that is switched off.
    pub lacks_drain: bool,
}

impl PolicyRules {
    /// From the live object.
    pub fn from_live(live: &LiveUpgradePolicy) -> Self {
        let max_unavailable =
            live.max_unavailable.as_deref().map(|text| (text, text.parse::<Count>()));
        Self {
            auto_upgrade: live.auto_upgrade,
            lacks_drain: live.lacks_drain,
            unreadable: match max_unavailable {
                Some((text, Err(_))) => Some(text.to_owned()),
                Some((_, Ok(_))) | None => None,
            },
            policy: Policy {
                // The CustomResourceDefinitions' default.
                max_parallel_upgrades: live.max_parallel.unwrap_or(1),
                max_unavailable: max_unavailable.and_then(|(_, count)| count.ok()),
                wait_for_completion: live.wait_for_completion.clone(),
                pod_deletion: live.pod_deletion.clone(),
                drain: live.drain.clone(),
            },
        }
    }
}
