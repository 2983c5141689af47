//! The hook as a whole against an API server in memory, hours of it in milliseconds: the clock is paused and jumps to whatever is
//! awaited next.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use fixture::settings;

mod fake;
mod rig;
mod world;

mod away;
mod baselines;
mod clocks;
mod crashes;
mod daemon_set;
mod driven;
mod ends;
mod focus;
mod full_run;
mod holds;
mod large_record;
mod leases;
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
mod signals;
mod socket;
mod truth;
mod user_requests;
mod versions;
mod watches;
mod workloads;
mod writes;
