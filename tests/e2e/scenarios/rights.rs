//! h. Over all scenarios, every right that the chart grants was used. `run.sh` runs it after the
//! others.

use anyhow::{Result, ensure};

use crate::harness::rights::unused;

#[test]
#[ignore = "end to end: make e2e, after the other scenarios"]
fn every_granted_right_is_used() -> Result<()> {
    let unused = unused()?;
    ensure!(unused.is_empty(), "granted and never used: {unused:#?}");
    Ok(())
}
