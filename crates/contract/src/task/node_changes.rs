//! What each task changes on nodes. The right `patch nodes` allows any change; the optional
//! admission policy of the chart is generated from this table, and allows nothing else.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Task;
use crate::driver::{Driver, DriverTraits};
use crate::names::PREFIX;
use crate::settings::Settings;

/// The changes of one task, in addition to gpu-rollout's own labels and annotations
/// ([`PREFIX`]).
#[derive(Debug)]
pub struct NodeChange {
    /// The task.
    pub task: Task,
    /// Whether it cordons nodes.
    pub cordons: bool,
    /// Whether it uncordons nodes.
    pub uncordons: bool,
    /// The labels of NVIDIA that it sets and removes.
    pub labels: fn(&DriverTraits) -> Vec<&'static str>,
    /// The annotations of NVIDIA that it sets and removes.
    pub annotations: fn(&DriverTraits) -> Vec<&'static str>,
}

/// The table: one row for each task with the right `patch nodes`.
pub const NODE_CHANGES: &[NodeChange] = &[
    NodeChange {
        task: Task::Hold,
        cordons: false,
        uncordons: false,
        labels: |driver| vec![driver.skip_label],
        annotations: |_| Vec::new(),
    },
    NodeChange {
        // After a change of the mode, it removes what a hook in mode `steer` or `drive` left.
        task: Task::Wake,
        cordons: false,
        uncordons: true,
        labels: |driver| vec![driver.skip_label, driver.state_label],
        annotations: |driver| {
            vec![driver.wait_start, driver.validation_start, driver.initially_unschedulable]
        },
    },
    NodeChange {
        task: Task::Steer,
        cordons: true,
        uncordons: true,
        labels: |driver| vec![driver.skip_label, driver.state_label],
        annotations: |driver| {
            vec![driver.wait_start, driver.validation_start, driver.initially_unschedulable]
        },
    },
    NodeChange {
        task: Task::Drive,
        cordons: true,
        uncordons: true,
        labels: |driver| vec![driver.skip_label],
        annotations: |driver| {
            vec![driver.safe_load, driver.initially_unschedulable, driver.requested]
        },
    },
];

/// The changes of nodes that a Job's tasks make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AllowedNodeChanges {
    /// Whether they cordon nodes.
    pub cordon: bool,
    /// Whether they uncordon nodes.
    pub uncordon: bool,
    /// The labels of NVIDIA that they set and remove.
    pub labels: BTreeSet<&'static str>,
    /// The annotations of NVIDIA that they set and remove.
    pub annotations: BTreeSet<&'static str>,
}

impl AllowedNodeChanges {
    /// Returns the changes of a task with a driver. `None`: the task changes no nodes.
    pub fn of_task(task: Task, driver: Driver) -> Option<Self> {
        let row = NODE_CHANGES.iter().find(|row| row.task == task)?;
        let foreign = |keys: Vec<&'static str>| {
            keys.into_iter().filter(|key| !is_own(key)).collect::<BTreeSet<_>>()
        };
        Some(Self {
            cordon: row.cordons,
            uncordon: row.uncordons,
            labels: foreign((row.labels)(driver.traits())),
            annotations: foreign((row.annotations)(driver.traits())),
        })
    }

    /// Returns the changes of all tasks of a Job.
    pub fn of_job(settings: &Settings) -> Self {
        let tasks = settings.tasks.iter();
        tasks.filter_map(|task| Self::of_task(*task, settings.driver)).fold(
            Self::default(),
            |mut all, one| {
                all.cordon |= one.cordon;
                all.uncordon |= one.uncordon;
                all.labels.extend(one.labels);
                all.annotations.extend(one.annotations);
                all
            },
        )
    }

    /// Returns whether a label may change.
    pub fn has_label(&self, key: &str) -> bool {
        is_own(key) || self.labels.contains(key)
    }

    /// Returns whether a node may be made unschedulable, or schedulable again.
    pub fn has_unschedulable(&self, unschedulable: bool) -> bool {
        if unschedulable { self.cordon } else { self.uncordon }
    }

    /// Returns whether an annotation may change.
    pub fn has_annotation(&self, key: &str) -> bool {
        is_own(key) || self.annotations.contains(key)
    }
}

/// Returns whether a label or annotation is gpu-rollout's own.
fn is_own(key: &str) -> bool {
    key.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::RIGHTS;
    use super::*;

    #[test]
    fn tasks_with_patch_nodes_have_a_row() {
        let patching = |task: Task| {
            RIGHTS.iter().any(|right| {
                right.task == Some(task)
                    && right.resource == "nodes"
                    && right.verbs.contains(&"patch")
            })
        };
        for task in Task::ALL {
            let rows = NODE_CHANGES.iter().filter(|row| row.task == task).count();
            assert_eq!(rows, usize::from(patching(task)), "{task:?}");
        }
    }

    /// The names are on the nodes of clusters since version 0.1.0.
    #[test]
    fn own_keys_of_every_driver_are_allowed() {
        let none = AllowedNodeChanges::default();
        for driver in Driver::ALL {
            let traits = driver.traits();
            assert!(none.has_label(traits.own_state_label));
            for key in [traits.own_record, traits.hold, traits.retries, traits.wake] {
                assert!(none.has_annotation(key), "{key}");
            }
        }
        assert!(!none.has_label("gpu-rollout.developer/x"));
    }

    #[test]
    fn assist_neither_cordons_nor_changes_other_labels() {
        let settings =
            Settings { tasks: vec![Task::Settle, Task::Wake, Task::Reroll], ..Settings::default() };
        let allowed = AllowedNodeChanges::of_job(&settings);
        assert!(!allowed.has_unschedulable(true));
        assert!(allowed.has_unschedulable(false), "a cordon that mode drive left is removed");
        assert!(allowed.has_label("nvidia.com/gpu-driver-upgrade-state"));
        for key in ["nvidia.com/gpu.present", "nvidia.com/ofed-driver-upgrade-state"] {
            assert!(!allowed.has_label(key), "{key}");
        }
    }
}
