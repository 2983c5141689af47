//! Hints for keys that a chart does not read.

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
    /// Returns a hint for the unknown `key` below `path`, where the chart reads `keys`.
    pub(crate) fn advice(&self, path: &KeyPath, key: &str, keys: &ChartKeys) -> String {
        let wrong = path.child(key).to_string();
        if let Some(advice) = self.version.obsolete_keys.get(&wrong) {
            return advice.clone();
        }
        let mut places = self.all.places_of(key);
        // Nearest places first: `driver.maxParallelUpgrades` means the key below `driver`.
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

    /// Returns the hint for the right key, with the recipe's own key if the recipe sets it
    /// elsewhere.
    fn suggestion(&self, right: &KeyPath) -> String {
        match rollout::policy_of(self.component, right) {
            Some(policy) => format!("did you mean `{right}`? In a recipe, set `{policy}`"),
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
