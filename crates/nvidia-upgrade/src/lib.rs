//! NVIDIA's driver-upgrade controller as a pure model: k8s-operator-libs `pkg/upgrade`, as
//! gpu-operator and network-operator use it. The model predicts the controller's next steps, and
//! why a node waits for it; in simulations, it is the controller. It makes no decision for
//! gpu-rollout, and improves nothing: the defects of the original are part of it.
//!
//! [`UpgradeSnapshot`] is the controller's view, [`pass()`] one run of it, [`explain_pass()`] a
//! prediction of a run and of the waits of other nodes; [`UpgradeController`] adds a clock and a
//! memory, for simulations.

pub mod background_task;
pub mod controller;
pub mod controller_generation;
pub mod explain;
pub mod operator;
pub mod pass;
pub mod pass_time;
pub mod policy_rules;
pub mod predict;
pub mod snapshot;
pub mod state;
pub mod throttle;
pub mod users;
pub mod wake;
pub mod watched;

pub use controller::UpgradeController;
pub use controller_generation::ControllerGeneration;
pub use explain::explain_pass;
pub use pass::{PassOptions, PassOutcome, PassWrite, pass, pass_with};
pub use policy_rules::PolicyRules;
pub use snapshot::UpgradeSnapshot;
pub use state::ControllerState;
