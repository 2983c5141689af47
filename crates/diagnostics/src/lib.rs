//! Diagnostics for texts that users write: YAML as a tree with positions, and findings that show
//! the place.

pub mod diagnostic;
mod excerpt;
pub mod lint;
pub mod nearest;
pub mod parse;
pub mod path;
pub mod source;
pub mod tree;
pub mod words;
