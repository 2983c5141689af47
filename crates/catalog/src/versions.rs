//! The order of a chart's versions, and the treatment of versions that are not in the catalog.

use std::cmp::Ordering;

use semver::Version as Number;

use super::model::{
    CatalogComponent, ChartRepository, ComponentHooks, ComponentVersion, DowngradeLimit,
    SchedulingPaths,
};

impl CatalogComponent {
    /// Compares two versions of the chart; `None` if one of them is not a version. Ignores a
    /// leading `v`. Versions of an earlier numbering are older than all others.
    pub fn compare(&self, first: &str, second: &str) -> Option<Ordering> {
        let rank = |text: &str| {
            let number = number(text)?;
            let is_earlier = self.earlier_numbering.as_ref().is_some_and(|range| {
                // A range excludes pre-releases unless it names them.
                range.matches(&Number::new(number.major, number.minor, number.patch))
            });
            Some((!is_earlier, number))
        };
        Some(rank(first)?.cmp(&rank(second)?))
    }

    /// Returns the known version whose chart works like that of `version`: itself, otherwise the
    /// newest one whose `since` is not newer, otherwise the oldest. For a text that is not a
    /// version, returns the newest.
    ///
    /// # Panics
    /// Never: a test checks that every component has versions.
    pub fn closest_version(&self, version: &str) -> &ComponentVersion {
        let newest = self.versions.last().expect(
            "every component has a version; the test `every_component_is_readable` checks it",
        );
        if let Some(known) = self.version(version) {
            return known;
        }
        if number(version).is_none() {
            return newest;
        }
        let is_older = |known: &&ComponentVersion| {
            let since = known.since.as_ref().unwrap_or(&known.version);
            self.compare(since, version).is_some_and(Ordering::is_le)
        };
        self.versions.iter().rev().find(is_older).or(self.versions.first()).unwrap_or(newest)
    }

    /// Returns the limit that a change from `old` to `new` crosses, if it is a downgrade that the
    /// vendor does not support.
    pub fn crossed_limit(&self, old: &str, new: &str) -> Option<&DowngradeLimit> {
        self.downgrade_limits.iter().find(|limit| {
            let is_below =
                |version| self.compare(version, &limit.version).is_some_and(Ordering::is_lt);
            is_below(new) && self.compare(old, &limit.version).is_some_and(Ordering::is_ge)
        })
    }

    /// Returns the name of the chart in `version`.
    pub fn chart_in(&self, version: &str) -> &str {
        self.closest_version(version).chart.as_ref().unwrap_or(&self.chart)
    }

    /// Returns the repository of the chart of `version`.
    pub fn repository_in(&self, version: &str) -> &ChartRepository {
        self.closest_version(version).repository.as_ref().unwrap_or(&self.repository)
    }

    /// Returns the hooks of `version`.
    pub fn hooks_in(&self, version: &str) -> &ComponentHooks {
        self.closest_version(version).hooks.as_ref().unwrap_or(&self.hooks)
    }

    /// Returns the keys for node selectors and tolerations of `version`.
    pub fn scheduling_in(&self, version: &str) -> &SchedulingPaths {
        self.closest_version(version).node_scheduling.as_ref().unwrap_or(&self.node_scheduling)
    }
}

fn number(text: &str) -> Option<Number> {
    Number::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{component, component_names};

    #[test]
    fn the_renumbered_dra_driver_is_newer() {
        let driver = component("nvidia-dra-driver-gpu").unwrap();
        assert_eq!(driver.compare("0.4.1", "25.12.0"), Some(Ordering::Greater));
        assert_eq!(driver.compare("0.4.1", "0.5.0"), Some(Ordering::Less));
        assert_eq!(driver.compare("25.8.1", "v25.12.0"), Some(Ordering::Less));
        assert_eq!(driver.compare("25.12.0-rc.1", "0.4.0"), Some(Ordering::Less));
        assert_eq!(driver.compare("latest", "0.4.0"), None);
        assert_eq!(
            (driver.chart_in("0.5.0"), driver.chart_in("25.3.2")),
            ("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu")
        );
        assert_eq!(driver.chart_in("latest"), "dra-driver-nvidia-gpu");
        assert!(driver.repository_in("0.4.0").url.starts_with("oci://"));
    }

    #[test]
    fn unknown_versions_behave_like_next_older_one() {
        let operator = component("network-operator").unwrap();
        for (version, like) in [
            ("24.10.1", "25.1.0"),
            ("24.7.0", "24.7.1"),
            ("23.7.0", "24.1.1"),
            ("25.10.0", "26.1.2"),
            ("26.4.0", "26.1.2"),
            ("26.7.0-rc.2", "26.4.1"),
            ("24.7.1", "24.7.1"),
        ] {
            assert_eq!(operator.closest_version(version).version, like, "{version}");
        }
    }

    #[test]
    fn downgrades_below_a_limit_are_unsupported() {
        let driver = component("nvidia-dra-driver-gpu").unwrap();
        for (old, new, is_unsupported) in [
            ("0.4.1", "25.12.0", true),
            ("0.4.0", "25.8.1", true),
            ("0.4.1", "0.4.0", false),
            ("25.12.0", "0.4.1", false),
            ("25.12.0", "25.8.1", false),
        ] {
            assert_eq!(driver.crossed_limit(old, new).is_some(), is_unsupported, "{old} {new}");
        }
        let operator = component("gpu-operator").unwrap();
        assert_eq!(operator.crossed_limit("v26.7.0", "v26.3.3"), None);
    }

    #[test]
    fn versions_stand_in_their_order() {
        for component in component_names().filter_map(component) {
            for pair in component.versions.windows(2) {
                assert_eq!(
                    component.compare(&pair[0].version, &pair[1].version),
                    Some(Ordering::Less),
                    "{}",
                    component.name
                );
            }
        }
    }
}
