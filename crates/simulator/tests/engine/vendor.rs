//! Compares the model of NVIDIA's controller with traces of the real one (`tests/data/traces`,
//! gpu-operator v26.7.0).

mod explain;
mod replay;
mod snapshot_cache;
mod story;
mod world;
