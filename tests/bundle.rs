//! `gpu-rollout bundle` as people run it: what the command line says, and what it refuses.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod bundle {
    mod archive;
    mod command;
    mod hostile_options;
    mod many;
    mod push;
    mod signed;
}
#[path = "../crates/bundle/tests/render/hostile.rs"]
mod hostile;
