//! Who decides when a node's upgrade starts, and what a hook Job does for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::task::Task;

/// Who decides when a node's upgrade starts, from least to most control.
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
    /// NVIDIA's controller decides and acts; the hook watches, reports and re-rolls DRA plugins.
    Observe,
    /// As `observe`. In addition, the hook wakes NVIDIA's controller after events that the
    /// controller does not watch, and retries failed nodes within a limit.
    #[default]
    Assist,
    /// NVIDIA's controller upgrades a node after the hook releases the node's hold.
    Steer,
    /// The operator's `autoUpgrade` is off, and the hook performs the whole upgrade.
    Drive,
}

impl Mode {
    /// Every mode, from least to most control.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the mode's name in recipes, settings and chart.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the tasks of the mode. Tasks that belong to no mode, such as [`Task::Settle`],
    /// belong to all.
    pub fn tasks(self) -> &'static [Task] {
        match self {
            Self::Observe => &[],
            Self::Assist => &[Task::Preflight, Task::Hold, Task::Wake],
            Self::Steer => &[Task::Preflight, Task::Hold, Task::Wake, Task::Steer],
            Self::Drive => &[Task::Preflight, Task::Drive],
        }
    }

    /// Returns whether the hook decides, by its own limits, when a node's upgrade starts.
    pub fn decides(self) -> bool {
        self >= Self::Steer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a Job in the mode may have the task.
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
