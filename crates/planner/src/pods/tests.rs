//! Each test is named after what went wrong somewhere, or after the line of the vendor's own tests
//! that it holds.

mod budgets;
mod eviction_retry;
mod filter;
mod holders;
mod plan;

use super::listed;

#[test]
fn a_long_list_is_cut_and_counted() {
    let names: Vec<String> = (0..7).map(|index| format!("gpu-{index}")).collect();
    assert_eq!(listed(&names), "gpu-0, gpu-1, gpu-2, gpu-3, gpu-4 and 2 more");
    assert_eq!(listed(&names[..2]), "gpu-0, gpu-1");
    assert_eq!(listed(&[]), "");
}
