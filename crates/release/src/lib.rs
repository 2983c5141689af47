//! Recipe and catalog → ordered releases. Pure: all meaning of a bundle is decided here, a deployer only writes it down.
//!
//! [`plan()`] is the entrance. `chosen` fixes versions and values of the components, `values` maps the recipe's `rollout` into chart values, `mode` says what of it is in force, `time` makes budgets, `hook` makes the
//! settings of a hook release, `crds` prepares CRDs, `sources` says where charts come from. `deployed` is the way back.

pub mod catalog;
mod chosen;
pub mod crds;
pub mod deployed;
mod described_catalog;
pub mod device_plugin;
pub mod error;
pub mod hook;
pub mod hook_image;
pub mod images;
pub mod mirror;
mod mode;
pub mod model;
pub mod namespaces;
mod node_options;
mod notes;
pub mod order;
pub mod plan;
pub mod resources;
pub mod sources;
pub mod time;
pub mod values;

pub use catalog::EmbeddedCatalog;
pub use error::PlanError;
pub use mode::upgrade;
pub use model::{ChartOrigin, Release, ReleaseKind, ReleasePlan};
pub use plan::{PlanOptions, plan};

#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
#[cfg(test)]
mod tests;
