//! The catalog: the components and recipes that are embedded in the binary, from `bundles/`. Data, no decisions.

pub mod hook_chart;
pub mod model;
