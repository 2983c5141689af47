//! Feeds mutated inputs to everything that reads text from outside: files of users, bundles from
//! untrusted sources, and what others may write into the cluster. `FUZZ_TARGET` selects a target;
//! `scripts/fuzz.sh` runs all of them. An input that panics, or takes too long, is a bug.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

mod bundles;
mod cluster;
mod texts;

/// A target: its name, and what reads the input.
type Target = (&'static str, fn(&str));

/// Every target.
const TARGETS: &[Target] = &[
    ("yaml", texts::yaml),
    ("recipe", texts::recipe),
    ("device-plugin", texts::device_plugin),
    ("arguments", texts::arguments),
    ("addresses", texts::addresses),
    ("redaction", texts::redaction),
    ("manifest", bundles::manifest),
    ("bundle", bundles::bundle),
    ("package", bundles::package),
    ("chart-package", bundles::chart_package),
    ("signature", bundles::signature),
    ("settings", cluster::settings),
    ("record", cluster::record),
];

/// The selected target.
static TARGET: LazyLock<fn(&str)> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let known: Vec<&str> = TARGETS.iter().map(|(known, _)| *known).collect();
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is `{name}`, expected one of {known:?}")).1
});

fuzz_target!(|data: &[u8]| {
    // All readers refuse text that is not UTF-8 before anything else reads it. Targets that read
    // archives make them of texts.
    if let Ok(text) = std::str::from_utf8(data) {
        TARGET(text);
    }
});
