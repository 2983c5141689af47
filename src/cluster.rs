//! Kubernetes I/O: watches that fill caches, and the few writes. Decides nothing. The only place that knows the Kubernetes client.

pub mod access;
pub mod actions;
pub mod cache;
pub mod call;
mod change;
pub mod client;
pub mod events;
pub mod focus;
pub mod follow;
pub mod gpus;
pub mod helm;
pub mod horizon;
pub mod intern;
pub mod job;
mod joined;
pub mod lease;
pub mod list;
pub mod network;
pub mod object;
pub mod pause;
pub mod project;
pub mod record;
pub mod releases;
pub mod shown;
pub mod source;
pub mod times;
pub mod watches;
