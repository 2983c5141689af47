//! Writes the run record: before the actions of a decision, as one patch, and only when it is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use contract::exit::ExitCode;
use contract::record::{NodeRecord, RECORD_FORMAT_VERSION, RecordedFleetWait, RunRecord, Verdict};
use contract::settings::Settings;
use contract::task::Task;
use contract::user_request::accepted_nodes;
use kube_io::record::{RecordError, RecordStore, StoredRecord};
use observed::Observed;
use observed::named::Named;
use planner::decide::is_proof_complete;
use planner::decide::{Action, Decision};
use planner::hold::operator_version;
use planner::memory::{AssessmentPeriod, RunMemory};
use planner::spec::{driver_identity, fingerprint};

use super::ended_halt::EndedHalt;
use crate::clock::later;
use crate::start::read;
use crate::{HookProcess, RunEnd};

/// How long the loop gathers the history of nodes in progress before it writes it. Annotations on
/// the nodes contain the same data. The end of a node is written at once.
const GATHER_RECORD: Duration = Duration::from_secs(30);

/// Writes the run record of this process.
pub(super) struct RecordWriter {
    store: RecordStore,
    run: RunRecord,
    pub(super) schedule: RecordSchedule,
    /// The halt that a user has ended since the record was last written.
    pub(super) ended_halt: Option<EndedHalt>,
}

impl RecordWriter {
    pub(super) fn new(hook: &HookProcess, store: RecordStore) -> Self {
        let now = hook.clock.now();
        let run = RunRecord {
            format_version: RECORD_FORMAT_VERSION,
            digest: hook.settings.digest.clone(),
            job: hook.identity.job.clone(),
            started_at: now,
            taken_over_at: Some(now),
            previous_ended_at: None,
            specs: String::new(),
            configs: BTreeMap::new(),
            cohort_nodes: None,
            cohort: None,
            operator_version: None,
            baseline_nodes: None,
            baseline: None,
            proof: None,
            proven_driver: None,
            fleet_wait: None,
            assessed_since: None,
            interruptions: Vec::new(),
            verdict: None,
        };
        Self {
            store,
            run,
            schedule: RecordSchedule { gathers: hook.settings.has(Task::Drive), due: Some(now) },
            ended_halt: None,
        }
    }

    /// Reads the record and continues its run, or starts a new one. Returns the memory, and whether
    /// the run is continued.
    pub(super) async fn load(
        &mut self,
        hook: &HookProcess,
        deadline: Timestamp,
    ) -> Result<(RunMemory, bool), RunEnd> {
        let record = read(hook, &mut self.store, hook.last_attempt(deadline)).await?;
        let now = hook.clock.now();
        self.ended_halt = EndedHalt::of(&record);
        let continued = continue_run(&mut self.run, record, deadline, now)?;
        // Commands need the new `taken_over_at`, also of a process that acquired the Lease again.
        self.schedule.due = Some(now);
        Ok(continued)
    }

    /// Returns the record of the run with this memory.
    fn run_with(&self, memory: &RunMemory) -> RunRecord {
        // A run that ends before it assesses nodes passes the earlier baseline on.
        let baseline = memory.baseline.as_ref().or(memory.earlier_baseline.as_ref()).cloned();
        RunRecord {
            configs: memory.configs.clone(),
            cohort: memory.cohort.clone(),
            baseline,
            proof: memory.proof.as_deref().cloned(),
            fleet_wait: fleet_wait(memory),
            assessed_since: memory.assessed.since,
            interruptions: memory.interruptions.clone(),
            ..self.run.clone()
        }
    }

    /// Writes the record of a decision.
    pub(super) async fn write(
        &mut self,
        observed: &Observed,
        decision: &Decision,
        settings: &Settings,
    ) -> Result<(), RecordError> {
        let mut run = self.run_with(&decision.memory);
        if let Some(verdict) = &decision.verdict {
            run.verdict = Some(verdict.clone());
            run.specs = fingerprint(observed);
            if verdict.code == ExitCode::Success {
                run.operator_version = operator_version(observed, settings);
                // Deferred nodes can be left without a single node that has the new driver.
                let is_proven = |proof| is_proof_complete(proof, &settings.upgrade);
                if run.proof.as_ref().is_none_or(is_proven) {
                    run.proven_driver = Some(driver_identity(observed, settings.driver));
                    run.proof = None;
                }
            }
        }
        self.store.write(&run, &decision.memory.nodes).await?;
        self.schedule.due = None;
        Ok(())
    }

    /// Writes the verdict of a run that made no decision. If the write fails, a replacement pod
    /// reaches the same verdict.
    pub(super) async fn write_verdict(&mut self, memory: &RunMemory, verdict: &Verdict) {
        let run = RunRecord { verdict: Some(verdict.clone()), ..self.run_with(memory) };
        if let Err(error) = self.store.write(&run, &memory.nodes).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot write the run record");
        }
    }

    /// Writes the gathered changes before the process ends. If the write fails, only the record
    /// loses them.
    pub(super) async fn flush(&mut self, memory: &RunMemory) {
        if self.schedule.due.take().is_none() {
            return;
        }
        let run = self.run_with(memory);
        if let Err(error) = self.store.write(&run, &memory.nodes).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot write the run record before the process ends"
            );
        }
    }
}

/// Continues the run of the record if it belongs to the same Job. Otherwise starts a new run, which
/// remembers earlier replacements. `Err`: the verdict that an earlier pod of the Job stored.
fn continue_run(
    run: &mut RunRecord,
    record: StoredRecord,
    deadline: Timestamp,
    now: Timestamp,
) -> Result<(RunMemory, bool), Verdict> {
    // Requests are the commands' entries: the hook keeps what it finds in the ConfigMap.
    let StoredRecord { run: stored, nodes, requests } = record;
    let configs = stored.as_ref().map(|stored| stored.configs.clone()).unwrap_or_default();
    run.operator_version = stored.as_ref().and_then(|stored| stored.operator_version.clone());
    run.proven_driver = stored.as_ref().and_then(|stored| stored.proven_driver.clone());
    let mut proof = stored.as_ref().and_then(|stored| stored.proof.clone());
    if let Some(proof) = &mut proof {
        proof.resume(&requests);
    }
    let again = stored.as_ref().is_some_and(|stored| stored.job == run.job);
    run.previous_ended_at = stored.as_ref().and_then(|stored| {
        let ended_at = || stored.verdict.as_ref().map(|verdict| verdict.at);
        if again { stored.previous_ended_at } else { ended_at() }
    });
    let memory = match stored {
        Some(stored) if again => {
            if let Some(verdict) = stored.verdict {
                return Err(verdict);
            }
            let interruptions = stored.interruption_times();
            // Without a cohort, the earlier pod has assessed no node, so its baseline is that of
            // the run before.
            let (baseline, earlier_baseline) = if stored.cohort.is_some() {
                (stored.baseline, None)
            } else {
                (None, stored.baseline)
            };
            let started = RunMemory::new(stored.started_at, deadline);
            RunMemory {
                nodes,
                cohort: stored.cohort,
                baseline,
                earlier_baseline,
                assessed: AssessmentPeriod {
                    since: stored.assessed_since,
                    has_ended: stored.fleet_wait.is_some_and(|wait| !wait.nodes_assessed),
                    is_observed: false,
                },
                interruptions,
                ..started
            }
        }
        stored => {
            let succeeded = |run: &RunRecord| {
                run.verdict.as_ref().is_some_and(|verdict| verdict.code == ExitCode::Success)
            };
            // Damage by a run that did not succeed must not become part of the next baseline.
            let earlier_baseline =
                stored.filter(|run| !succeeded(run)).and_then(|run| run.baseline);
            RunMemory { earlier_baseline, ..RunMemory::following(&nodes, now, deadline) }
        }
    };
    run.started_at = memory.started_at;
    run.taken_over_at = Some(now);
    let mut memory = RunMemory {
        configs,
        settled_version: run.operator_version.clone(),
        proof: proof.map(Arc::new),
        accepted: accepted_nodes(&requests),
        proven_driver: run.proven_driver.clone(),
        taken_over_at: now,
        ..memory
    };
    memory.interruption_ended(now);
    Ok((memory, again))
}

/// Returns the recorded wait of the whole fleet. A command that observes the cluster for the first
/// time cannot derive it.
fn fleet_wait(memory: &RunMemory) -> Option<RecordedFleetWait> {
    memory.fleet_waiting.map(|(reason, since)| RecordedFleetWait {
        reason: reason.to_owned(),
        since,
        nodes_assessed: !memory.assessed.has_ended,
    })
}

/// Determines when the record is written.
#[derive(Debug)]
pub(super) struct RecordSchedule {
    /// Whether the hook drives. The nodes then carry everything that must survive a killed process,
    /// so the record can gather changes.
    gathers: bool,
    /// When the gathered changes are written.
    pub(super) due: Option<Timestamp>,
}

impl RecordSchedule {
    /// Whether to write the record of a decision now. If not, a change makes it due later.
    pub(super) fn is_due(
        &mut self,
        before: &RunMemory,
        decision: &Decision,
        now: Timestamp,
    ) -> bool {
        if self.must_precede(before, decision) || self.due.is_some_and(|due| due <= now) {
            return true;
        }
        let wanted = &decision.memory;
        let changed = || wanted.nodes != before.nodes || wanted.configs != before.configs;
        if self.due.is_none() && changed() {
            self.due = Some(later(now, GATHER_RECORD));
        }
        false
    }

    /// Makes the record due later if the results of actions have changed it, such as accepted
    /// evictions: no later decision finds this change. `decided`: the nodes before the actions.
    pub(super) fn gather(
        &mut self,
        decided: &Named<NodeRecord>,
        memory: &RunMemory,
        now: Timestamp,
    ) {
        if self.due.is_none() && memory.nodes != *decided {
            self.due = Some(later(now, GATHER_RECORD));
        }
    }

    /// Whether the record must be written before the actions of a decision, or readers of the
    /// record need it at once.
    fn must_precede(&self, before: &RunMemory, decision: &Decision) -> bool {
        let replaces = |action: &Action| matches!(action, Action::ReplacePlugin { .. });
        // The baseline must be written before the first change to a node, and what it excuses
        // before the node is released.
        let excuses = before.baseline != decision.memory.baseline;
        let ends = || ends_node(before, &decision.memory);
        let waits_for_other = before.fleet_waiting != decision.memory.fleet_waiting
            || before.assessed.has_ended != decision.memory.assessed.has_ended;
        // A later process must start the same canaries.
        let proves = before.proof != decision.memory.proof;
        !self.gathers
            || excuses
            || proves
            || waits_for_other
            || decision.verdict.is_some()
            || decision.actions.iter().any(replaces)
            || ends()
    }
}

/// Returns whether a node has ended, or ended in another way. From then on, only the record contains
/// its upgrade.
fn ends_node(before: &RunMemory, now: &RunMemory) -> bool {
    let outcome = |memory: &RunMemory, name: &str| memory.nodes.get(name)?.outcome;
    now.nodes
        .differing(&before.nodes)
        .into_iter()
        .any(|name| outcome(now, name).is_some() && outcome(now, name) != outcome(before, name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use contract::record::proof::{DriverProof, HaltCause, Halted};
    use contract::record::{MOST_INTERRUPTIONS, NodeOutcome, RecordedPluginConfig};
    use contract::user_request::{RequestCommand, UserRequest};
    use planner::waits::Waits;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn run(job: &str, code: Option<ExitCode>) -> RunRecord {
        let verdict = code.map(|code| Verdict {
            code,
            message: String::new(),
            reasons: Vec::new(),
            at: NOW,
            hint: None,
        });
        RunRecord {
            format_version: RECORD_FORMAT_VERSION,
            digest: String::new(),
            job: job.to_owned(),
            started_at: NOW,
            taken_over_at: None,
            specs: String::new(),
            configs: BTreeMap::new(),
            cohort_nodes: None,
            cohort: None,
            operator_version: Some("v1".to_owned()),
            baseline_nodes: None,
            baseline: Some(Arc::default()),
            proof: None,
            proven_driver: None,
            previous_ended_at: None,
            fleet_wait: None,
            assessed_since: None,
            interruptions: Vec::new(),
            verdict,
        }
    }

    fn continued(stored: RunRecord) -> Result<(RunMemory, bool), Verdict> {
        let record = StoredRecord { run: Some(stored), ..StoredRecord::default() };
        continue_run(&mut run("a", None), record, NOW, later(NOW, Duration::from_secs(5)))
    }

    #[test]
    fn stored_verdict_of_the_same_job_ends_the_run() {
        assert_eq!(
            continued(run("a", Some(ExitCode::Budget))).map_err(|verdict| verdict.code).err(),
            Some(ExitCode::Budget)
        );
        assert!(continued(run("b", Some(ExitCode::Budget))).is_ok());
    }

    #[test]
    fn run_of_the_same_job_is_continued_and_another_one_replaced() {
        let (memory, again) = continued(run("a", None)).unwrap();
        assert!(
            again
                && memory.started_at == NOW
                && memory.earlier_baseline.is_some()
                && memory.baseline.is_none()
        );
        let (memory, again) = continued(run("b", Some(ExitCode::Success))).unwrap();
        assert!(
            !again && memory.started_at > NOW && memory.earlier_baseline.is_none(),
            "a run that succeeded leaves no baseline"
        );
        let (memory, _) = continued(run("b", Some(ExitCode::Budget))).unwrap();
        assert!(memory.earlier_baseline.is_some());
        assert_eq!(memory.settled_version.as_deref(), Some("v1"));
    }

    /// The pace took the time of every outage but the last for that of a node.
    #[test]
    fn takeover_keeps_earlier_interruptions() {
        let stored = RunRecord { interruptions: vec![NOW], ..run("a", None) };
        let (mut memory, _) = continued(stored).unwrap();
        let takeover = later(NOW, Duration::from_secs(5));
        assert_eq!(memory.interruptions, [NOW, takeover]);
        for _ in 0..MOST_INTERRUPTIONS {
            memory.interruption_ended(takeover);
        }
        assert_eq!(memory.interruptions, [takeover; MOST_INTERRUPTIONS], "the record is bounded");
    }

    /// After a takeover while the ConfigMap was missing, all nodes seemed to wait since then.
    #[test]
    fn takeover_keeps_the_start_of_assessments() {
        for nodes_assessed in [true, false] {
            let wait =
                RecordedFleetWait { reason: "ConfigMissing".into(), since: NOW, nodes_assessed };
            let stored =
                RunRecord { fleet_wait: Some(wait), assessed_since: Some(NOW), ..run("a", None) };
            let (memory, _) = continued(stored).unwrap();
            assert_eq!(memory.assessed.has_ended, !nodes_assessed);
        }
    }

    #[test]
    fn halt_outlasts_its_run_until_a_user_resumes() {
        let at = |seconds| later(NOW, Duration::from_secs(seconds));
        let halt = Halted {
            at: at(5),
            cause: HaltCause::FailedProofs,
            nodes: vec!["gpu-0".into()],
            labels: Vec::new(),
        };
        let proof = DriverProof { halt: Some(halt), ..DriverProof::new("driver".to_owned()) };
        let request = |command, ends: Option<u64>| UserRequest {
            halt: ends.map(at),
            accepts: [("gpu-7".to_owned(), at(3))].into(),
            driver: Some("driver".to_owned()),
            ..UserRequest::new(command, "ada".to_owned(), at(6))
        };
        for (requests, is_halted) in [
            (vec![], true),
            (vec![request(RequestCommand::Resume, Some(4))], true),
            (vec![request(RequestCommand::Retry, None)], true),
            (
                vec![
                    request(RequestCommand::Resume, Some(5)),
                    request(RequestCommand::Resume, None),
                ],
                false,
            ),
        ] {
            let stored =
                RunRecord { proof: Some(proof.clone()), ..run("b", Some(ExitCode::Halted)) };
            let record = StoredRecord { run: Some(stored), requests, ..StoredRecord::default() };
            assert_eq!(EndedHalt::of(&record).is_none(), is_halted);
            let accepted = accepted_nodes(&record.requests);
            let (memory, _) = continue_run(&mut run("a", None), record, NOW, at(9)).unwrap();
            assert_eq!(memory.accepted, accepted);
            let proof = memory.proof.expect("it is kept");
            assert_eq!(proof.halt.is_some(), is_halted);
            assert_eq!(proof.accepted.is_empty(), is_halted, "the failed node does not halt again");
        }
    }

    #[test]
    fn record_of_a_driven_run_is_gathered_until_it_is_due() {
        let memory = RunMemory::new(NOW, NOW);
        let mut changed = memory.clone();
        changed.configs.insert(
            "config".to_owned(),
            RecordedPluginConfig { digest: String::new(), since: NOW },
        );
        let decision = |memory: &RunMemory| Decision {
            memory: memory.clone(),
            actions: Vec::new(),
            focus: BTreeSet::new(),
            waits: Waits::default(),
            assessed: true,
            outcomes: Named::new(),
            ended: Waits::default(),
            notes: Vec::new(),
            well: false,
            verdict: None,
            wake_at: NOW,
            wake_at_if_led: NOW,
        };
        let mut schedule = RecordSchedule { gathers: true, due: None };
        assert!(
            !schedule.is_due(&memory, &decision(&memory), NOW) && schedule.due.is_none(),
            "nothing has changed"
        );
        assert!(!schedule.is_due(&memory, &decision(&changed), NOW));
        assert_eq!(schedule.due, Some(later(NOW, GATHER_RECORD)));
        assert!(schedule.is_due(&memory, &decision(&memory), later(NOW, GATHER_RECORD)));
        let mut ended = changed.clone();
        let record = |outcome| NodeRecord { outcome, ..NodeRecord::default() };
        changed.nodes.insert("gpu-0", record(None));
        ended.nodes.insert("gpu-0", record(Some(NodeOutcome::Done)));
        let mut schedule = RecordSchedule { gathers: true, due: None };
        assert!(!schedule.is_due(&memory, &decision(&changed), NOW), "a node has started");
        assert!(schedule.is_due(&changed, &decision(&ended), NOW), "a node has ended");
        assert!(!schedule.is_due(&ended, &decision(&ended), NOW), "it ended before");
        let mut always = RecordSchedule { gathers: false, due: None };
        assert!(always.is_due(&memory, &decision(&memory), NOW));
    }
}
