//! A parsed request.

use std::collections::BTreeMap;

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use super::store::Key;

/// A parsed request to the API server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    /// The pod that sends the request.
    pub(crate) who: String,
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    /// The plural name. Empty for discovery.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    /// The name from the path, or from `fieldSelector=metadata.name=…`, as for RBAC.
    pub(crate) name: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Value,
    pub(crate) content_type: String,
}

/// One line of the request log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) request: Request,
    pub(crate) at: Timestamp,
    /// The HTTP status. 0: no answer.
    pub(crate) status: u16,
    /// Whether a write took effect, even if its answer was lost.
    pub(crate) applied: bool,
    /// Whether it was in transit for so long that its sender had abandoned it.
    pub(crate) late: bool,
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            b'+' => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).unwrap()
}

impl Request {
    pub(crate) fn parse(who: &str, parts: &http::request::Parts, body: &[u8]) -> Self {
        let pairs = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let query: BTreeMap<String, String> =
            pairs.map(|(key, value)| (decoded(key), decoded(value))).collect();
        let mut path: Vec<&str> =
            parts.uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let mut request = Self { who: who.to_owned(), query, ..Self::default() };
        request.body = serde_json::from_slice(body).unwrap_or(Value::Null);
        let content_type = parts.headers.get(http::header::CONTENT_TYPE);
        request.content_type =
            content_type.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let group_parts = if path.first() == Some(&"api") { 1 } else { 2 };
        if path.len() <= group_parts {
            request.verb = "discover";
            return request;
        }
        if group_parts == 2 {
            request.group = String::from(path[1]);
        }
        request.version = String::from(path[group_parts]);
        path.drain(..=group_parts);
        if path.first() == Some(&"namespaces") && path.len() > 2 {
            request.namespace = String::from(path[1]);
            path.drain(..2);
        }
        request.resource = String::from(path.first().copied().unwrap_or_default());
        request.name = String::from(path.get(1).copied().unwrap_or_default());
        let single = !request.name.is_empty();
        match path.get(2).copied() {
            Some(part @ ("eviction" | "log")) => {
                request.resource = format!("{}/{part}", request.resource);
            }
            Some(_) => panic!("no other subresource is ever used: {}", parts.uri),
            None => {}
        }
        if let Some(name) = request
            .query
            .get("fieldSelector")
            .and_then(|selector| selector.strip_prefix("metadata.name="))
        {
            request.name = String::from(name);
        }
        request.verb = match parts.method {
            Method::GET
                if request
                    .query
                    .get("watch")
                    .is_some_and(|watch| watch == "true" || watch == "1") =>
            {
                "watch"
            }
            Method::GET if single => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if single => "delete",
            _ => "deletecollection",
        };
        request
    }

    pub(crate) fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// Whether the request is a write. Access reviews are not.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
            && self.resource != "selfsubjectaccessreviews"
    }

    /// Returns the node whose pods are requested.
    pub(crate) fn node(&self) -> Option<&str> {
        self.query.get("fieldSelector").and_then(|selector| selector.strip_prefix("spec.nodeName="))
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.resource, &self.namespace, &self.name)
    }

    /// Whether a list or watch selects an object.
    pub(crate) fn selects(&self, key: &Key, object: &Value) -> bool {
        let is_met = |requirement: &str| match requirement.split_once('=') {
            Some((label, value)) => object["metadata"]["labels"][label] == value,
            None => object["metadata"]["labels"].get(requirement).is_some(),
        };
        let label = |selector: &String| selector.split(',').all(is_met);
        key.resource == self.resource
            && (self.namespace.is_empty() || key.namespace == self.namespace)
            && (self.name.is_empty() || key.name == self.name)
            && self.query.get("labelSelector").is_none_or(label)
            && self.node().is_none_or(|node| object["spec"]["nodeName"] == node)
    }
}
