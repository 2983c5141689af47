//! The halt that a user has ended with `gpu-rollout resume`.

use contract::record::proof::Halted;
use contract::user_request::UserRequest;
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
        let request = halt.ended_by(&record.requests)?;
        Some(Self { halt: halt.clone(), request: request.clone() })
    }
}
