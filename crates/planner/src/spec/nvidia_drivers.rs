//! Checks that the NVIDIADriver of the operator's chart matches the values. NVIDIADrivers of users
//! are checked against themselves: their DaemonSets must carry their spec.

use crate::policies::{self, has_policy_per_driver};
use crate::reason::Reason;
use contract::expected::ExpectedUpgradePolicy;
use contract::names;
use contract::settings::Settings;
use observed::{LiveUpgradePolicy, NvidiaDriver, Observed};

pub(super) fn precondition(observed: &Observed, settings: &Settings) -> Result<(), Reason> {
    let Some(expected) = &settings.expected.default_nvidia_driver else { return Ok(()) };
    let missing = || Reason::PolicyMissing {
        kind: names::NVIDIA_DRIVER_KIND,
        name: names::DEFAULT_NVIDIA_DRIVER.to_owned(),
    };
    let mut drivers = observed.live_nvidia_drivers();
    let driver = drivers
        .find(|driver| driver.name == names::DEFAULT_NVIDIA_DRIVER && !driver.deleting)
        .ok_or_else(missing)?;
    let image = &driver.driver;
    for (field, expected, found) in [
        ("spec.repository", &expected.repository, &image.repository),
        ("spec.image", &expected.image, &image.image),
        ("spec.version", &expected.version, &image.version),
    ] {
        if let Some(expected) = expected
            && found.as_ref() != Some(expected)
        {
            return Err(mismatch(driver, field, expected, found.as_deref()));
        }
    }
    if has_policy_per_driver(observed.operator_version()) {
        return upgrade_policy(driver, &settings.expected.upgrade_policy);
    }
    Ok(())
}

fn upgrade_policy(driver: &NvidiaDriver, expected: &ExpectedUpgradePolicy) -> Result<(), Reason> {
    let LiveUpgradePolicy { auto_upgrade, max_parallel, max_unavailable, .. } =
        &driver.upgrade_policy;
    let fields = &policies::NVIDIA_DRIVER;
    let pairs = [
        (
            fields.auto_upgrade,
            expected.auto_upgrade.map(|on| on.to_string()),
            Some(auto_upgrade.to_string()),
        ),
        (
            fields.max_parallel,
            expected.max_parallel_upgrades.map(|most| most.to_string()),
            max_parallel.map(|most| most.to_string()),
        ),
        (fields.max_unavailable, expected.max_unavailable.clone(), max_unavailable.clone()),
    ];
    for (field, expected, found) in pairs {
        if let Some(expected) = expected
            && found.as_ref() != Some(&expected)
        {
            return Err(mismatch(driver, field, &expected, found.as_deref()));
        }
    }
    Ok(())
}

fn mismatch(
    driver: &NvidiaDriver,
    field: &'static str,
    expected: &str,
    found: Option<&str>,
) -> Reason {
    Reason::precondition(
        names::NVIDIA_DRIVER_KIND,
        &driver.name,
        field,
        expected,
        found,
        driver.field_manager.as_ref(),
    )
}
