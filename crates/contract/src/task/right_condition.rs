//! Settings that decide whether a task needs one of its rights.

use serde::Serialize;

use crate::driver::Driver;
use crate::settings::{HoldNodes, Mode, Reroll, Settings};

/// What the settings must ask for, so that the hook uses a right. The chart's `_rights.tpl` reads
/// the same from its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RightCondition {
    /// Stale DRA kubelet plugins are replaced, and not only reported.
    Reroll,
    /// The upgrade policy removes pods from a node.
    Eviction,
    /// Nodes may be held before the operator's release.
    Hold,
    /// The chart's admission policies are enabled.
    AdmissionPolicy,
    /// There are acceptance tests. Only nodes with a GPU driver run them.
    Acceptance,
    /// An acceptance test asks for lines of its log.
    AcceptanceLogs,
}

impl RightCondition {
    /// Returns whether the settings ask for it.
    pub fn is_met(self, settings: &Settings) -> bool {
        match self {
            Self::Reroll => settings.dra.reroll == Reroll::Auto,
            Self::Eviction => settings.upgrade.policy.evicts(),
            Self::AdmissionPolicy => settings.admission_policy,
            Self::Acceptance => {
                settings.driver == Driver::Gpu && !settings.upgrade.acceptance.is_empty()
            }
            Self::AcceptanceLogs => {
                let mut tests = settings.upgrade.acceptance.iter();
                Self::Acceptance.is_met(settings) && tests.any(|test| test.log_lines > 0)
            }
            // Mode `steer` holds nodes with every setting.
            Self::Hold => {
                settings.mode != Mode::Assist || settings.operator_upgrade.hold != HoldNodes::Never
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RightScope, Task, rights};
    use super::*;
    use crate::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
    use crate::policy::{DrainPolicy, PodDeletionPolicy};

    /// Returns the write rights of a task as `verb resource`.
    fn writes(settings: &Settings, task: Task) -> Vec<String> {
        let of_task = rights(settings).filter(|right| right.task == Some(task));
        let verbs = of_task
            .flat_map(|right| right.verbs.iter().map(|verb| format!("{verb} {}", right.resource)));
        let reads = ["get ", "list ", "watch "];
        verbs.filter(|verb| !reads.iter().any(|read| verb.starts_with(read))).collect()
    }

    fn with(task: Task, mode: Mode) -> Settings {
        Settings { tasks: vec![task], mode, ..Settings::default() }
    }

    #[test]
    fn reroll_off_needs_no_delete_pods() {
        let mut settings = with(Task::Reroll, Mode::Assist);
        assert_eq!(writes(&settings, Task::Reroll), ["delete pods"]);
        settings.dra.reroll = Reroll::Off;
        assert_eq!(writes(&settings, Task::Reroll), [""; 0]);
        let reads = rights(&settings).filter(|right| right.task == Some(Task::Reroll));
        assert!(reads.count() > 0, "staleness is still reported");
    }

    #[test]
    fn policy_without_evictions_needs_no_evictions() {
        let mut settings = with(Task::Drive, Mode::Drive);
        let (deletion, drain) = (Some(PodDeletionPolicy::default()), Some(DrainPolicy::default()));
        for (deletion, drain, evicts) in [
            (None, None, false),
            (deletion.clone(), None, true),
            (None, drain.clone(), true),
            (deletion, drain, true),
        ] {
            settings.upgrade.policy.pod_deletion = deletion;
            settings.upgrade.policy.drain = drain;
            let found = writes(&settings, Task::Drive);
            assert_eq!(found.contains(&"create pods/eviction".to_owned()), evicts);
            assert!(found.contains(&"patch nodes".to_owned()));
            let budgets = rights(&settings).any(|right| right.resource == "poddisruptionbudgets");
            assert_eq!(budgets, evicts);
        }
    }

    #[test]
    fn only_acceptance_tests_of_gpu_drivers_need_pods() {
        let of_tests: &[&str] = &["podtemplates", "pods"];
        let with_logs: &[&str] = &["podtemplates", "pods", "pods/log"];
        for (log_lines, driver, task, expected) in [
            (Some(0), Driver::Gpu, Task::Drive, of_tests),
            (Some(0), Driver::Gpu, Task::Steer, of_tests),
            (Some(20), Driver::Gpu, Task::Drive, with_logs),
            (Some(20), Driver::Gpu, Task::Steer, with_logs),
            (Some(20), Driver::Gpu, Task::Preflight, &[]),
            (Some(20), Driver::Ofed, Task::Drive, &[]),
            (None, Driver::Gpu, Task::Drive, &[]),
        ] {
            let mut settings = Settings { driver, ..with(task, Mode::Drive) };
            if let Some(log_lines) = log_lines {
                settings.upgrade.acceptance.push(AcceptanceTest {
                    name: "dcgm".to_owned(),
                    timeout_seconds: 600,
                    when: vec![AcceptanceTime::After],
                    nodes: AcceptanceNodes::All,
                    gpus: AcceptanceGpus::All,
                    log_lines,
                });
            }
            let in_scope: Vec<&str> = rights(&settings)
                .filter(|right| right.scope == RightScope::Acceptance)
                .map(|right| right.resource)
                .collect();
            assert_eq!(in_scope, expected, "{log_lines:?} {driver:?} {task:?}");
        }
    }

    #[test]
    fn hold_never_needs_no_patch_nodes_in_assist() {
        for (mode, hold, expected) in [
            (Mode::Assist, HoldNodes::Auto, &["patch nodes"][..]),
            (Mode::Assist, HoldNodes::Always, &["patch nodes"]),
            (Mode::Assist, HoldNodes::Never, &[]),
            (Mode::Steer, HoldNodes::Never, &["patch nodes"]),
        ] {
            let mut settings = with(Task::Hold, mode);
            settings.operator_upgrade.hold = hold;
            assert_eq!(writes(&settings, Task::Hold), expected, "{mode:?} {hold:?}");
        }
    }
}
