//! Who decides when a node goes, and what a hook Job has to do for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::task::Task;

/// Who decides when a node goes, from least to most control.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    EnumCount,
    VariantArray,
    IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
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
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// The mode's name, as in recipes, settings and chart.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The tasks that come with the mode; those that come with none ([`Task::Settle`], say) belong to all.
    pub fn tasks(self) -> &'static [Task] {
        match self {
            Self::Observe => &[],
            Self::Assist => &[Task::Preflight, Task::Hold, Task::Wake],
            Self::Steer => &[Task::Preflight, Task::Hold, Task::Wake, Task::Steer],
            Self::Drive => &[Task::Preflight, Task::Drive],
        }
    }

    /// Whether we decide when a node goes, by our own limits.
    pub fn decides(self) -> bool {
        self >= Self::Steer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a Job in the mode may have the task.
    fn allows(mode: Mode, task: Task) -> bool {
        mode.tasks().contains(&task) || !Mode::ALL.iter().any(|mode| mode.tasks().contains(&task))
    }

    #[test]
    fn tasks_of_no_mode_belong_to_all() {
        for mode in Mode::ALL {
            for task in [Task::PrepareNetwork, Task::Settle, Task::Reroll, Task::RestartPlugins] {
                assert!(allows(mode, task), "{mode:?} {task:?}");
            }
        }
        let allowed =
            |task| Mode::ALL.into_iter().filter(|mode| allows(*mode, task)).collect::<Vec<_>>();
        assert_eq!(allowed(Task::Preflight), [Mode::Assist, Mode::Steer, Mode::Drive]);
        assert_eq!(allowed(Task::Wake), [Mode::Assist, Mode::Steer]);
        assert_eq!(allowed(Task::Hold), [Mode::Assist, Mode::Steer]);
        assert_eq!(allowed(Task::Drive), [Mode::Drive]);
    }

    /// The order of a Job's tasks is that of [`Task::ALL`].
    #[test]
    fn tasks_are_in_the_order_of_execution() {
        for mode in Mode::ALL {
            assert!(mode.tasks().is_sorted(), "{mode:?}");
        }
        assert!(Task::ALL.is_sorted());
    }
}
