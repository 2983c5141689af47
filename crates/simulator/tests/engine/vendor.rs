//! The model of the vendor's controller beside what the real one did (`tests/data/traces`, gpu-operator v26.7.0).

mod explain;
mod replay;
mod snapshot_cache;
mod story;
mod world;
