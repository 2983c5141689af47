//! Checks configurations of NVIDIA's device plugin (config API v1): the plugin's verdict, the
//! resources that a node will offer, and mistakes that the plugin accepts silently.

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
