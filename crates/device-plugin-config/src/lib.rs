//! The configuration of NVIDIA's device plugin (config API v1): what the plugin makes of it, what a node will offer, and what is
//! wrong with it although the plugin says nothing.

pub mod check;
pub mod config_map;
pub mod duration;
pub mod effective;
pub mod environment;
pub mod file;
pub mod keys;
pub mod lint;
pub mod model;
pub mod name;
pub mod read;
pub mod rule;
pub mod selection;
pub mod version;
