//! The stories. Each one starts a stack of its own.

mod trivial;
