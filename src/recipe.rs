//! Text → a validated recipe.

pub mod aicr;
pub mod diagnostic;
pub mod explain;
pub mod extends;
pub mod load;
pub mod merge;
pub mod model;
pub mod nearest;
pub mod overrides;
pub mod parse;
pub mod path;
pub mod read;
pub mod rules;
pub mod schema;
pub mod shape;
pub mod source;
pub mod tree;
pub mod unbuilt;
