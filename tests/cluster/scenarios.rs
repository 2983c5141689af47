//! The stories. Each one starts a stack of its own.

mod traces;
mod trivial;
