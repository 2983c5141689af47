//! The store of the server: objects, and the history of all changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

/// The key of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(resource: &str, namespace: &str, name: &str) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// One change, as in a watch event.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
    /// The time of the change.
    pub(crate) at: Instant,
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) version: u64,
    pub(crate) objects: BTreeMap<Key, Value>,
    pub(crate) history: Vec<Change>,
    uids: u64,
}

/// Formats a time as Kubernetes does, in whole seconds.
pub(crate) fn text(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Store {
    pub(crate) fn unique(&mut self) -> u64 {
        self.uids += 1;
        self.uids
    }

    fn change(&mut self, key: Key, kind: &'static str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if kind == "DELETED" {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key.clone(), object.clone());
        }
        self.history.push(Change {
            version: self.version,
            key,
            kind,
            object: object.clone(),
            at: Instant::now(),
        });
        object
    }

    /// Adds an object, with the fields that the server sets.
    pub(crate) fn create(&mut self, key: Key, mut object: Value, now: Timestamp) -> Value {
        let uid = format!("uid-{}-{}", key.name, self.unique());
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(key.name);
        if !key.namespace.is_empty() {
            metadata["namespace"] = json!(key.namespace);
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(uid);
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(text(now));
        }
        self.change(key, "ADDED", object)
    }

    /// Stores an object. An unchanged object makes no new version.
    pub(crate) fn update(&mut self, key: &Key, object: Value) -> Value {
        if self.objects.get(key) == Some(&object) {
            return object;
        }
        self.change(key.clone(), "MODIFIED", object)
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(object) = self.objects.get(key).cloned() {
            self.change(key.clone(), "DELETED", object);
        }
    }

    /// Goes back to a version, as a restore of etcd from a backup does.
    pub(crate) fn restore(&mut self, version: u64) {
        self.history.truncate(usize::try_from(version).unwrap());
        self.version = version;
        self.objects.clear();
        for change in &self.history {
            match change.kind {
                "DELETED" => self.objects.remove(&change.key),
                _ => self.objects.insert(change.key.clone(), change.object.clone()),
            };
        }
    }

    /// Returns all objects of a resource at a version.
    pub(crate) fn list_at(&self, resource: &str, version: u64) -> Vec<(Key, Value)> {
        if version >= self.version {
            return self
                .objects
                .iter()
                .filter(|(key, _)| key.resource == resource)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
        }
        let mut objects = BTreeMap::new();
        for change in self
            .history
            .iter()
            .filter(|change| change.version <= version && change.key.resource == resource)
        {
            match change.kind {
                "DELETED" => objects.remove(&change.key),
                _ => objects.insert(change.key.clone(), change.object.clone()),
            };
        }
        objects.into_iter().collect()
    }
}

/// Applies a JSON merge patch (RFC 7396).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { unreachable!("made an object just above") };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
