//! Kubernetes I/O: watches that fill caches, and the writes. Decides nothing. The only crate that
//! uses the Kubernetes client.

pub mod acceptance_pod;
pub mod acceptance_tests;
pub mod access;
pub mod actions;
pub mod admission_policies;
mod api_collection;
mod cache;
pub mod call;
pub mod client;
pub mod error_causes;
pub mod events;
pub mod gpus;
pub mod granted_access;
pub mod helm;
pub mod job;
pub mod lease;
pub mod list;
mod list_watch;
pub mod managed_field_times;
mod merged_views;
pub mod network;
pub mod node_pods;
mod object_writes;
pub mod pause;
pub mod raw;
pub mod record;
pub mod releases;
pub mod repeated_warning;
pub mod server_time;
mod sink;
pub mod user_request;
pub mod version_floor;
pub mod watches;
