//! The contract between the CLI and the hook: names, tasks with their rights, settings, budgets,
//! the run record, exit codes.
//!
//! A leaf crate: it imports no other crate of the workspace, and each of them may import it.

pub mod acceptance;
pub mod budget;
pub mod chart_files;
pub mod check;
pub mod count;
pub mod digest;
pub mod driver;
pub mod duration;
pub mod exit;
pub mod expected;
pub mod file_content;
pub mod git_source;
pub mod grammar;
pub mod image_reference;
pub mod metrics;
pub mod mode;
pub mod names;
pub mod omitted;
pub mod operand;
pub mod pause;
pub mod policy;
pub mod preflight;
pub mod proof;
pub mod record;
pub mod secret_patterns;
pub mod selector;
pub mod settings;
pub mod task;
pub mod user_info;
pub mod user_request;
pub mod visible;
pub mod window;
