//! The hook chart: what is generated from the program's own tables, and what real Helm makes of it.

mod chart {
    mod digest;
    mod generated;
    mod helm;
    mod refusals;
    mod rendered;
}
