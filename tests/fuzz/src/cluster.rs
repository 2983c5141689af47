//! What others may write into the cluster: settings, annotations and ConfigMaps.

use contract::driver::Driver;
use contract::settings::Settings;
use contract::user_request::requests;
use planner::drive_upgrade::record;

/// Parses the settings of a hook. What is written is read as the same.
pub(crate) fn settings(text: &str) {
    if let Ok(settings) = serde_json::from_str::<Settings>(text) {
        let written = serde_json::to_string(&settings).expect("settings can be written");
        let read: Settings = serde_json::from_str(&written).expect("what is written can be read");
        assert_eq!(read, settings, "{written}");
    }
}

/// Reads the upgrade record of a node, and requests of users.
pub(crate) fn record(text: &str) {
    let traits = Driver::Gpu.traits();
    let mut node = observed::ObservedNode::default();
    node.annotations.insert(traits.own_record.to_owned(), text.to_owned());
    drop(record::read(&node, traits));
    let key = format!("{}0", contract::user_request::REQUEST_KEY_PREFIX);
    drop(requests([(&key, &text.to_owned())]));
}
