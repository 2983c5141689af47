//! The rules of the controller: the policy of the live custom resource.

use contract::count::Count;
use contract::policy::Policy;

use observed::LiveUpgradePolicy;

/// The live policy, as the controller reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRules {
    /// `autoUpgrade`: if it is off, the controller does nothing.
    pub auto_upgrade: bool,
    /// The policy. `pod_deletion: None` is an error of the controller when a node reaches that
    /// step.
    pub policy: Policy,
    /// The value of `maxUnavailable`, if it is not a number of nodes.
    pub unreadable: Option<String>,
    /// Whether the policy has no `drain`, not even a disabled one.
    pub lacks_drain: bool,
}

impl PolicyRules {
    /// Creates the rules from the live object.
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
