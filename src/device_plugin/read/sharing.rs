//! `sharing` and `resources`: parts that the plugin decodes with code of its own, which stops at the first mistake.

use super::super::keys;
use super::super::model::{Shared, SharedResource};
use super::super::name::ResourceName;
use super::{Read, devices, go, last, sorted};
use crate::text::tree::{Node, Value};

/// The fewest replicas.
const FEWEST_REPLICAS: i64 = 2;
/// What both parts say of a strategy that shares nothing.
const NO_RESOURCES: &str = "no resources specified";
/// A map that the plugin takes apart by itself.
const RAW_MAP: &str = "map[string]json.RawMessage";

/// Why one part cannot be used, and the node that is to blame.
pub(super) type Refused<'a> = (&'a Node, String);

impl Read {
    pub(super) fn sharing(&mut self, node: &Node) {
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

    pub(super) fn resources(&mut self, node: &Node) {
        for entry in sorted(node) {
            let Some(key) = keys::taken_for("resources", &entry.key, self.version) else { continue };
            match &entry.node.value {
                Value::Null => {}
                Value::List(items) => {
                    for item in items {
                        if let Err((node, message)) = resource(item, &format!("Resources.{}", key.path)) {
                            self.stop(node, message);
                        }
                    }
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Map(_) => {
                    self.wrong_type(&entry.node, "resources", key, "[]v1.Resource");
                }
            }
        }
    }
}

fn unfit<'a>(node: &'a Node, field: &str, expected: &str) -> Refused<'a> {
    let kind = if expected == "int" { go::kind_for_whole(node) } else { go::kind(node) };
    (node, format!("json: cannot unmarshal {kind} into Go struct field {field} of type {expected}"))
}

fn map<'a>(node: &'a Node, field: &str) -> Result<(), Refused<'a>> {
    match node.value {
        Value::Null | Value::Map(_) => Ok(()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::List(_) => Err(unfit(node, field, RAW_MAP)),
    }
}

fn switch<'a>(node: &'a Node, key: &str, field: &str) -> Result<Option<bool>, Refused<'a>> {
    match last(node, key).map(|value| (value, &value.value)) {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::Bool(flag))) => Ok(Some(*flag)),
        Some((value, Value::Number(_) | Value::String(_) | Value::List(_) | Value::Map(_))) => Err(unfit(value, field, "bool")),
    }
}

fn shared<'a>(node: &'a Node, field: &str) -> Result<Shared, Refused<'a>> {
    map(node, field)?;
    let rename_by_default = switch(node, "renameByDefault", field)?.unwrap_or_default();
    let fail_requests_greater_than_one = switch(node, "failRequestsGreaterThanOne", field)?;
    let Some(list) = last(node, "resources") else { return Err((node, NO_RESOURCES.to_owned())) };
    let resources = match &list.value {
        Value::Null => Vec::new(),
        Value::List(items) => items.iter().map(|item| shared_resource(item, field)).collect::<Result<_, _>>()?,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Map(_) => {
            return Err(unfit(list, field, "[]v1.ReplicatedResource"));
        }
    };
    if resources.is_empty() {
        return Err((list, NO_RESOURCES.to_owned()));
    }
    Ok(Shared { rename_by_default, fail_requests_greater_than_one, resources })
}

fn shared_resource<'a>(item: &'a Node, field: &str) -> Result<SharedResource, Refused<'a>> {
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

fn name<'a>(node: &'a Node, field: &str) -> Result<ResourceName, Refused<'a>> {
    let text = match &node.value {
        Value::Null => "",
        Value::String(text) => text,
        Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => return Err(unfit(node, field, "string")),
    };
    ResourceName::new(text).map_err(|message| (node, message))
}

fn resource<'a>(item: &'a Node, field: &str) -> Result<(), Refused<'a>> {
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
            Value::Null | Value::String(_) => {}
            Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => return Err(unfit(value, field, "v1.ResourcePattern")),
        }
    }
    Ok(())
}
