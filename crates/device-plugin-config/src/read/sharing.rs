//! `sharing` and `resources`: parts that the plugin decodes with code of its own, which stops at the first mistake.

use super::super::keys;
use super::super::model::{ResourceSharing, SharedResource};
use super::super::name::ResourceName;
use super::{ConfigReader, devices, go, last, sorted};
use diagnostics::tree::{YamlNode, YamlValue};

/// The fewest replicas.
const FEWEST_REPLICAS: i64 = 2;
/// What both parts say of a strategy that shares nothing.
const NO_RESOURCES: &str = "no resources specified";
/// A map that the plugin takes apart by itself.
const RAW_MAP: &str = "map[string]json.RawMessage";

/// Why one part cannot be used, and the node that is to blame.
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
            let Some(key) = keys::taken_for("resources", &entry.key, self.version) else { continue };
            match &entry.node.value {
                YamlValue::Null => {}
                YamlValue::List(items) => {
                    for item in items {
                        if let Err((node, message)) = resource(item, &format!("Resources.{}", key.path)) {
                            self.stop(node, message);
                        }
                    }
                }
                YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) | YamlValue::Map(_) => {
                    self.wrong_type(&entry.node, "resources", key, "[]v1.Resource");
                }
            }
        }
    }
}

fn unfit<'a>(node: &'a YamlNode, field: &str, expected: &str) -> RefusedPart<'a> {
    let kind = if expected == "int" { go::kind_for_whole(node) } else { go::kind(node) };
    (node, format!("json: cannot unmarshal {kind} into Go struct field {field} of type {expected}"))
}

fn map<'a>(node: &'a YamlNode, field: &str) -> Result<(), RefusedPart<'a>> {
    match node.value {
        YamlValue::Null | YamlValue::Map(_) => Ok(()),
        YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) | YamlValue::List(_) => Err(unfit(node, field, RAW_MAP)),
    }
}

fn switch<'a>(node: &'a YamlNode, key: &str, field: &str) -> Result<Option<bool>, RefusedPart<'a>> {
    match last(node, key).map(|value| (value, &value.value)) {
        None | Some((_, YamlValue::Null)) => Ok(None),
        Some((_, YamlValue::Bool(flag))) => Ok(Some(*flag)),
        Some((value, YamlValue::Number(_) | YamlValue::String(_) | YamlValue::List(_) | YamlValue::Map(_))) => {
            Err(unfit(value, field, "bool"))
        }
    }
}

fn shared<'a>(node: &'a YamlNode, field: &str) -> Result<ResourceSharing, RefusedPart<'a>> {
    map(node, field)?;
    let rename_by_default = switch(node, "renameByDefault", field)?.unwrap_or_default();
    let fail_requests_greater_than_one = switch(node, "failRequestsGreaterThanOne", field)?;
    let Some(list) = last(node, "resources") else { return Err((node, NO_RESOURCES.to_owned())) };
    let resources = match &list.value {
        YamlValue::Null => Vec::new(),
        YamlValue::List(items) => items.iter().map(|item| shared_resource(item, field)).collect::<Result<_, _>>()?,
        YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) | YamlValue::Map(_) => {
            return Err(unfit(list, field, "[]v1.ReplicatedResource"));
        }
    };
    if resources.is_empty() {
        return Err((list, NO_RESOURCES.to_owned()));
    }
    Ok(ResourceSharing { rename_by_default, fail_requests_greater_than_one, resources })
}

fn shared_resource<'a>(item: &'a YamlNode, field: &str) -> Result<SharedResource, RefusedPart<'a>> {
    map(item, field)?;
    let Some(written) = last(item, "name") else { return Err((item, "no resource name specified".to_owned())) };
    let name = name(written, field)?;
    if let Some(devices) = last(item, "devices") {
        devices::check(devices).map_err(|message| (devices, message))?;
    }
    let Some(count) = last(item, "replicas") else { return Err((item, "no replicas specified".to_owned())) };
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
    let text = match &node.value {
        YamlValue::Null => "",
        YamlValue::String(text) => text,
        YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::List(_) | YamlValue::Map(_) => return Err(unfit(node, field, "string")),
    };
    ResourceName::new(text).map_err(|message| (node, message))
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
        match &value.value {
            _ if key == "name" => drop(name(value, field)?),
            YamlValue::Null | YamlValue::String(_) => {}
            YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::List(_) | YamlValue::Map(_) => {
                return Err(unfit(value, field, "v1.ResourcePattern"));
            }
        }
    }
    Ok(())
}
