//! Who decides when a node goes, and what a hook Job has to do for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::duty::Duty;

/// Who decides when a node goes, from least to most control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The vendor's controller decides and acts; the hook watches, reports and re-rolls DRA plugins.
    Observe,
    /// The same, and the hook wakes the vendor's controller when something happened that it does not watch, and has failed nodes tried
    /// again within a budget.
    #[default]
    Assist,
    /// The vendor's controller acts on one node when we let go of it.
    Steer,
    /// The operator's `autoUpgrade` is off, and the hook does the whole upgrade.
    Drive,
}

impl Mode {
    /// Every mode, from least to most control.
    pub const ALL: [Self; 4] = [Self::Observe, Self::Assist, Self::Steer, Self::Drive];

    /// The mode's name, as in recipes, settings and chart.
    pub fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Assist => "assist",
            Self::Steer => "steer",
            Self::Drive => "drive",
        }
    }

    /// The duties that come with the mode; those that come with none ([`Duty::Settle`], say) belong to all.
    pub fn duties(self) -> &'static [Duty] {
        match self {
            Self::Observe => &[],
            Self::Assist => &[Duty::Preflight, Duty::Hold, Duty::Wake],
            Self::Steer => &[Duty::Preflight, Duty::Hold, Duty::Wake, Duty::Steer],
            Self::Drive => &[Duty::Preflight, Duty::Drive],
        }
    }

    /// Whether a Job in this mode may have the duty.
    pub fn allows(self, duty: Duty) -> bool {
        self.duties().contains(&duty) || !Self::ALL.iter().any(|mode| mode.duties().contains(&duty))
    }

    /// Whether we decide when a node goes, by our own limits.
    pub fn decides(self) -> bool {
        self >= Self::Steer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duties_of_no_mode_belong_to_all() {
        for mode in Mode::ALL {
            for duty in [Duty::PrepareNetwork, Duty::Settle, Duty::Reroll, Duty::RestartPlugins] {
                assert!(mode.allows(duty), "{mode:?} {duty:?}");
            }
        }
        let allowed = |duty| Mode::ALL.into_iter().filter(|mode| mode.allows(duty)).collect::<Vec<_>>();
        assert_eq!(allowed(Duty::Preflight), [Mode::Assist, Mode::Steer, Mode::Drive]);
        assert_eq!(allowed(Duty::Wake), [Mode::Assist, Mode::Steer]);
        assert_eq!(allowed(Duty::Hold), [Mode::Assist, Mode::Steer]);
        assert_eq!(allowed(Duty::Drive), [Mode::Drive]);
    }

    /// The order of a Job's duties is that of [`Duty::ALL`].
    #[test]
    fn duties_stand_in_the_order_in_which_a_job_performs_them() {
        for mode in Mode::ALL {
            assert!(mode.duties().is_sorted(), "{mode:?}");
        }
        assert!(Duty::ALL.is_sorted());
    }
}
