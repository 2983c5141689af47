//! Loads, merges and validates recipes, and imports recipes of NVIDIA AICR.

pub mod aicr;
pub mod criteria;
pub mod explain;
mod extends;
pub mod load;
pub mod manifests;
mod merge;
pub mod model;
pub mod overrides;
mod parse;
pub mod read;
mod recognize;
pub mod regular_file;
pub mod rules;
pub mod schema;
mod shape;
