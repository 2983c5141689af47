//! Text → a validated recipe.

pub mod model;
