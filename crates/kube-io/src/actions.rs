//! The writes that advance a rollout, and the reading of a test's log. Each performs one action of
//! the engine and nothing else: no retries, no pacing.

mod acceptance;
mod delete;
mod evict;
mod node;
mod perform;
mod test_log;

pub use acceptance::create_acceptance_pod;
pub use delete::delete_pod;
pub use evict::{EvictionAnswer, evict};
pub use node::patch_node;
pub use perform::perform;
pub use test_log::read_test_log;

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionResult {
    /// The action was performed.
    Now,
    /// There was nothing left to do: the object was deleted, or replaced by another one, or it
    /// exists already.
    Already,
    /// The object has changed since the decision; the next decision observes it again.
    Superseded,
    /// The server accepted the patch, but these parts of the object are not as requested: admission
    /// changed the patch.
    Changed(Vec<String>),
}
