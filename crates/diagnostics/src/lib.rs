//! Texts that people write: YAML as a tree in which everything knows its place, and findings that show the place.

pub mod diagnostic;
pub mod lint;
pub mod nearest;
pub mod parse;
pub mod path;
pub mod source;
pub mod tree;
pub mod words;
