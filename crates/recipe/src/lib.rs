//! Text → a validated recipe.

pub mod aicr;
pub mod explain;
pub mod extends;
pub mod load;
pub mod merge;
pub mod model;
pub mod overrides;
pub mod parse;
pub mod read;
pub mod rules;
pub mod schema;
pub mod shape;
