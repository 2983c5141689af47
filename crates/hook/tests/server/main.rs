//! The whole hook against an API server in memory. The clock is paused and jumps to the next timer,
//! so hours take milliseconds.

#![expect(clippy::unwrap_used, reason = "a panic shows the location")]

use fixture::settings;

mod fake;
mod rig;
mod world;

mod accept;
mod away;
mod baselines;
mod clocks;
mod crashes;
mod daemon_set;
mod driven;
mod ends;
mod fleet_waits;
mod focus;
mod full_run;
mod holds;
mod large_record;
mod leases;
mod left_policies;
mod metrics;
mod ofed;
mod operands;
mod person;
mod person_writes;
mod preflight;
mod prepare_network;
mod records;
mod refusals;
mod reports;
mod restarts;
mod retries;
mod signals;
mod socket;
mod truth;
mod user_requests;
mod versions;
mod watches;
mod workloads;
mod writes;
