//! What to write instead of a key that a chart does not read.

use super::rollout;
use catalog::keys::ChartKeys;
use catalog::model::ComponentVersion;
use diagnostics::nearest::nearest;
use diagnostics::path::KeyPath;
use diagnostics::words::first_in_backticks;

/// Knows the keys of one version of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyAdviser<'a> {
    /// The component.
    pub(crate) component: &'a str,
    /// The version.
    pub(crate) version: &'a ComponentVersion,
    /// All keys of the chart.
    pub(crate) all: &'a ChartKeys,
}

impl KeyAdviser<'_> {
    /// What to do about the unknown `key` below `path`, where the chart knows `keys`.
    pub(crate) fn advice(&self, path: &KeyPath, key: &str, keys: &ChartKeys) -> String {
        let wrong = path.child(key).to_string();
        if let Some(advice) = self.version.obsolete_keys.get(&wrong) {
            return advice.clone();
        }
        let mut places = self.all.places_of(key);
        // Nearer relatives first: `driver.maxParallelUpgrades` means the one below `driver`.
        let shared = |place: &[String]| {
            path.keys().iter().zip(place).take_while(|(left, right)| left == right).count()
        };
        places.sort_by_key(|place| (std::cmp::Reverse(shared(place)), place.len()));
        let relative = places.first().filter(|place| shared(place) > 0 || path.keys().is_empty());
        if let Some(place) = relative {
            return self.suggestion(&place.iter().collect());
        }
        if let Some(near) = nearest(key, keys.names()) {
            return self.suggestion(&path.child(near));
        }
        let known = known_keys(path, keys);
        match places.as_slice() {
            [only] => format!("there is `{}`; {known}", only.iter().collect::<KeyPath>()),
            _ => known,
        }
    }

    /// The right key; and where a recipe sets it, if that is not in values.
    fn suggestion(&self, right: &KeyPath) -> String {
        match rollout::policy_of(self.component, right) {
            Some(policy) => format!("did you mean `{right}`? A recipe sets it as `{policy}`"),
            None => format!("did you mean `{right}`?"),
        }
    }
}

fn known_keys(path: &KeyPath, keys: &ChartKeys) -> String {
    let place = if path.keys().is_empty() { "here".to_owned() } else { format!("below `{path}`") };
    match keys.names().next() {
        Some(_) => format!("known {place}: {}", first_in_backticks(keys.names())),
        None => format!("`{path}` is a single value"),
    }
}
