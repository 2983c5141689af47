//! NVIDIA's own driver-upgrade controller as a pure model: k8s-operator-libs `pkg/upgrade`, as gpu-operator and network-operator use it.
//! It says what that controller does next, and why a node waits for it; in simulations it is the controller. Nothing in here decides for
//! us, and nothing in here is better than the original: its defects are part of it.
//!
//! [`UpgradeSnapshot`] is what the controller sees, [`pass()`] one run of it, [`explain_pass()`] what a run would move and why other nodes do not
//! move; [`UpgradeController`] has a clock and a memory, for simulations.

pub mod controller;
pub mod controller_generation;
pub mod explain;
pub mod operator;
pub mod pass;
pub mod predict;
pub mod rules;
pub mod snapshot;
pub mod state;
pub mod task;
pub mod throttle;
pub mod users;
pub mod wake;

pub use controller::UpgradeController;
pub use controller_generation::ControllerGeneration;
pub use explain::explain_pass;
pub use pass::{PassOptions, PassOutcome, PassWrite, pass, pass_with};
pub use rules::PolicyRules;
pub use snapshot::UpgradeSnapshot;
pub use state::ControllerState;
