//! The hook chart: what is generated from the program's own tables, and what real Helm makes of it.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod chart {
    mod admission;
    mod components;
    mod defaults;
    mod digest;
    mod generated;
    mod helm;
    mod monitoring;
    mod refusals;
    mod rendered;
}
