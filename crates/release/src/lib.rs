//! Plans the ordered releases of a recipe. Pure: this crate decides everything that a bundle means,
//! and a deployer only writes it down.
//!
//! [`plan()`] is the entry point. `chosen` determines versions and values of the components,
//! `values` maps the recipe's `rollout` into chart values, `mode` determines the effective mode,
//! `time` computes time budgets, `hook` creates the settings of hook releases, `crds` prepares
//! CRDs, and `sources` determines the charts' repositories. `deployed` converts a deployed stack
//! back into a recipe.

pub mod acceptance;
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
pub mod manifests;
pub mod mirror;
mod mode;
pub mod model;
pub mod namespaces;
mod node_options;
mod notes;
mod operator_name;
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
