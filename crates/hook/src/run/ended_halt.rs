//! The halt that a user has ended with `gpu-rollout resume`.

use contract::record::proof::Halted;
use contract::user_request::{RequestCommand, UserRequest};
use kube_io::record::StoredRecord;

/// A halt that a user has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedHalt {
    /// The halt.
    pub(crate) halt: Halted,
    /// The request that ended it.
    pub(crate) request: UserRequest,
}

impl EndedHalt {
    /// Returns the halt of the record that a user has ended since, if there is one.
    pub(super) fn of(record: &StoredRecord) -> Option<Self> {
        let halt = record.run.as_ref()?.proof.as_ref()?.halt.as_ref()?;
        let request = last_resume(&record.requests);
        let request = request.filter(|request| halt.is_ended_by(request.at))?;
        Some(Self { halt: halt.clone(), request: request.clone() })
    }
}

/// Returns the newest request to resume the rollout.
pub(super) fn last_resume(requests: &[UserRequest]) -> Option<&UserRequest> {
    requests.iter().rev().find(|request| request.command == RequestCommand::Resume)
}
