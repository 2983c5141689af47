//! Reads `sharing` and `resources`, which the plugin decodes with its own code. It stops at the
//! first mistake.

use super::super::keys;
use super::super::model::{ResourceSharing, SharedResource};
use super::super::name::ResourceName;
use super::{ConfigReader, devices, go, last, sorted};
use diagnostics::tree::YamlNode;

/// The fewest replicas.
const FEWEST_REPLICAS: i64 = 2;
/// The plugin's message for a strategy without resources.
const NO_RESOURCES: &str = "no resources specified";
/// Go's type of a map that the plugin decodes itself.
const RAW_MAP: &str = "map[string]json.RawMessage";

/// The node that makes a part unusable, and the plugin's message.
pub(super) type RefusedPart<'a> = (&'a YamlNode, String);

impl ConfigReader {
    pub(super) fn sharing(&mut self, node: &YamlNode) {
        for entry in sorted(node) {
            let Some(key) = keys::taken_for("sharing", &entry.key, self.version) else { continue };
            let is_mps = key.path == "sharing.mps";
            if is_mps && entry.node.is_null() {
                self.reading.config.mps = None;
                continue;
            }
            match shared(&entry.node, &format!("Sharing.{}", key.path)) {
                Ok(shared) if is_mps => self.reading.config.mps = Some(shared),
                Ok(shared) => self.reading.config.time_slicing = Some(shared),
                Err((node, message)) => self.stop(node, message),
            }
        }
    }

    pub(super) fn resources(&mut self, node: &YamlNode) {
        for entry in sorted(node) {
            let Some(key) = keys::taken_for("resources", &entry.key, self.version) else {
                continue;
            };
            if entry.node.list().is_none() && !entry.node.is_null() {
                self.wrong_type(&entry.node, "resources", key, "[]v1.Resource");
            }
            for item in entry.node.items() {
                if let Err((node, message)) = resource(item, &format!("Resources.{}", key.path)) {
                    self.stop(node, message);
                }
            }
        }
    }
}

fn unfit<'a>(node: &'a YamlNode, field: &str, expected: &str) -> RefusedPart<'a> {
    let kind = if expected == "int" { go::kind_for_whole(node) } else { go::kind(node).to_owned() };
    (node, format!("json: cannot unmarshal {kind} into Go struct field {field} of type {expected}"))
}

fn map<'a>(node: &'a YamlNode, field: &str) -> Result<(), RefusedPart<'a>> {
    if node.is_null() || node.is_map() { Ok(()) } else { Err(unfit(node, field, RAW_MAP)) }
}

fn switch<'a>(node: &'a YamlNode, key: &str, field: &str) -> Result<Option<bool>, RefusedPart<'a>> {
    let Some(value) = last(node, key).filter(|value| !value.is_null()) else { return Ok(None) };
    value.boolean().map(Some).ok_or_else(|| unfit(value, field, "bool"))
}

fn shared<'a>(node: &'a YamlNode, field: &str) -> Result<ResourceSharing, RefusedPart<'a>> {
    map(node, field)?;
    let rename_by_default = switch(node, "renameByDefault", field)?.unwrap_or_default();
    let fail_requests_greater_than_one = switch(node, "failRequestsGreaterThanOne", field)?;
    let Some(list) = last(node, "resources") else { return Err((node, NO_RESOURCES.to_owned())) };
    if list.list().is_none() && !list.is_null() {
        return Err(unfit(list, field, "[]v1.ReplicatedResource"));
    }
    let resources = list
        .items()
        .iter()
        .map(|item| shared_resource(item, field))
        .collect::<Result<Vec<_>, _>>()?;
    if resources.is_empty() {
        return Err((list, NO_RESOURCES.to_owned()));
    }
    Ok(ResourceSharing { rename_by_default, fail_requests_greater_than_one, resources })
}

fn shared_resource<'a>(item: &'a YamlNode, field: &str) -> Result<SharedResource, RefusedPart<'a>> {
    map(item, field)?;
    let Some(written) = last(item, "name") else {
        return Err((item, "no resource name specified".to_owned()));
    };
    let name = name(written, field)?;
    if let Some(devices) = last(item, "devices") {
        devices::check(devices).map_err(|message| (devices, message))?;
    }
    let Some(count) = last(item, "replicas") else {
        return Err((item, "no replicas specified".to_owned()));
    };
    let replicas = match go::whole(count) {
        Some(replicas) => replicas,
        None if count.is_null() => 0,
        None => return Err(unfit(count, field, "int")),
    };
    if replicas < FEWEST_REPLICAS {
        return Err((count, format!("number of replicas must be >= {FEWEST_REPLICAS}")));
    }
    if let Some(rename) = last(item, "rename") {
        self::name(rename, field)?;
    }
    Ok(SharedResource { name, origin: written.origin, replicas, replicas_origin: count.origin })
}

fn name<'a>(node: &'a YamlNode, field: &str) -> Result<ResourceName, RefusedPart<'a>> {
    let text = if node.is_null() { Some("") } else { node.text() };
    ResourceName::new(text.ok_or_else(|| unfit(node, field, "string"))?)
        .map_err(|message| (node, message))
}

fn resource<'a>(item: &'a YamlNode, field: &str) -> Result<(), RefusedPart<'a>> {
    map(item, field)?;
    let found = ["pattern", "name"].map(|key| (key, last(item, key)));
    for (key, value) in found {
        if value.is_none() {
            return Err((item, format!("resources must have a '{key}' field set")));
        }
    }
    for (key, value) in found {
        let Some(value) = value else { continue };
        if key == "name" {
            name(value, field)?;
        } else if !value.is_null() && value.text().is_none() {
            return Err(unfit(value, field, "v1.ResourcePattern"));
        }
    }
    Ok(())
}
