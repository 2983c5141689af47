//! The writes that move a rollout. Each does what the engine said and nothing else: no retries, no pacing.

mod delete;
mod evict;
mod node;
mod perform;

pub use delete::delete_pod;
pub use evict::{EvictionAnswer, evict};
pub use node::patch_node;
pub use perform::perform;

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionResult {
    /// It was done.
    Now,
    /// There was nothing left to do: the object is gone or was replaced by another one.
    Already,
    /// The object has changed since the decision; the next decision observes it again.
    Superseded,
    /// The server accepted it, and these parts of the object are not as they were to be: admission changed the patch.
    Changed(Vec<String>),
}
