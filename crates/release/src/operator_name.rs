//! The name of the Network Operator's Deployment.

use serde_json::{Map, Value};

use catalog::lookup;
use contract::names::NETWORK_OPERATOR;

/// The longest name that the chart gives an object.
const LONGEST: usize = 63;

/// Returns the name that the values give the Deployment in this release; `None` if they do not set
/// one. The rules are those of the chart's `templates/_helpers.tpl`.
pub(super) fn of_network_operator(release: &str, values: &Map<String, Value>) -> Option<String> {
    let text =
        |path: &str| lookup(values, path).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(name) = text("operator.fullnameOverride") {
        return Some(shortened(name));
    }
    let name = text("operator.nameOverride").filter(|name| *name != NETWORK_OPERATOR)?;
    Some(shortened(&if release.contains(name) {
        release.to_owned()
    } else {
        format!("{release}-{name}")
    }))
}

/// Shortens a name like the chart.
fn shortened(name: &str) -> String {
    let end = name.char_indices().nth(LONGEST).map_or(name.len(), |(end, _)| end);
    let short = &name[..end];
    short.strip_suffix('-').unwrap_or(short).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deployment_name_follows_the_overrides() {
        let long = "x".repeat(70);
        for (operator, expected) in [
            (json!({}), None),
            (json!({"fullnameOverride": "", "nameOverride": ""}), None),
            (json!({"fullnameOverride": "net"}), Some("net")),
            (json!({"fullnameOverride": "net", "nameOverride": "other"}), Some("net")),
            (json!({"nameOverride": "nic"}), Some("network-operator-nic")),
            (json!({"nameOverride": "network"}), Some("network-operator")),
            (json!({"fullnameOverride": long}), Some(&long[..63])),
            (json!({"fullnameOverride": format!("{}-{long}", &long[..62])}), Some(&long[..62])),
        ] {
            let values = json!({"operator": operator});
            let name = of_network_operator("network-operator", values.as_object().unwrap());
            assert_eq!(name.as_deref(), expected, "{operator}");
        }
    }
}
