//! Finds the container images that the values of a bundle's components name.
//!
//! NVIDIA's charts and custom resources write an image as a map of `repository`, `image` (or
//! `name`) and `version` (or `tag`). Most other charts write a map of `repository` and `tag`, and a
//! few write one string in a map `images`. This module finds these forms anywhere in the values, so
//! that a new chart version needs no table. It does not find images that only a template names.

use serde::Serialize;
use serde_json::{Map, Value};

use super::values::over;
use catalog::model::CatalogComponent;
use catalog::{self, lookup};
use contract::chart_files::FILES;
use contract::image_reference::split;

pub(super) mod pull_secrets;
pub(super) mod template;

/// The keys with which maps of the vendor's charts switch off what they describe.
const SWITCHES: [&str; 3] = ["enabled", "deploy", "enable"];

/// One image at one path of the values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LocatedImage {
    /// The release whose pods use it.
    pub release: String,
    /// The dotted path in the values.
    pub place: String,
    /// Registry and path, without tag.
    pub repository: String,
    /// The tag, if it has one. For images of an operating system, the tag without the system's
    /// name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The digest, if it is pinned by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The suffix that is appended to the tag; `{os}`, `{architecture}` and `{kernel}` are those of
    /// the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// Whether the values enable it.
    pub enabled: bool,
}

impl LocatedImage {
    /// Returns the reference for a container runtime. A node-specific suffix keeps its
    /// placeholders.
    pub fn reference(&self) -> String {
        let tag = self
            .tag
            .as_deref()
            .map(|tag| format!(":{tag}{}", self.suffix.as_deref().unwrap_or_default()));
        let digest = self.digest.as_deref().map(|digest| format!("@{digest}"));
        format!("{}{}", self.repository, digest.or(tag).unwrap_or_default())
    }
}

/// The images of a bundle, as far as the catalog has the charts' values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageList {
    /// The images in the order of the values.
    pub images: Vec<LocatedImage>,
    /// Why images may be missing, one sentence each.
    pub unknown: Vec<String>,
}

/// Returns the images of the chart of component `name` with these values over its defaults, and of
/// the sub-charts that they enable.
pub fn of_chart(name: &str, version: &str, values: &Map<String, Value>) -> ImageList {
    let mut found = ImageList::default();
    let details = catalog::component(name)
        .and_then(|component| Some((component, component.version(version)?)));
    let Some((component, details)) = details else {
        found.unknown.push(format!("{name} {version}: the catalog does not have this version"));
        return found;
    };
    let Some(defaults) = component.default_values(details) else {
        found.unknown.push(format!(
            "{name} {version}: the catalog does not have the chart's default values"
        ));
        return found;
    };
    let all = over(defaults, values);
    found.images = of_component(component, version, &all);
    let is_of_sub_chart = |image: &LocatedImage| {
        let mut keys = details.nested.iter().map(|nested| nested.key.as_str());
        keys.any(|key| image.place.split('.').next() == Some(key))
    };
    found.images.retain(|image| !is_of_sub_chart(image));
    for nested in component.nested(details, &all) {
        let Some(sub) = catalog::component(&nested.component) else { continue };
        // All its versions have the same repository, and their own version as tag.
        let defaults = sub.defaults(Some(sub.closest_version(&nested.version)));
        let below = all.get(&nested.key).and_then(Value::as_object).cloned().unwrap_or_default();
        let images = of_component(sub, &nested.version, &over(defaults, &below));
        found.images.extend(images.into_iter().map(|image| LocatedImage {
            place: format!("{}.{}", nested.key, image.place),
            release: name.to_owned(),
            ..image
        }));
    }
    found
}

/// Finds the images of a component's chart. `values` are the recipe's values over the chart's
/// defaults.
fn of_component(
    component: &CatalogComponent,
    version: &str,
    values: &Map<String, Value>,
) -> Vec<LocatedImage> {
    let tag = format!("v{}", version.trim_start_matches('v'));
    let mut search = ImageSearch {
        release: &component.name,
        default_tag: Some(&tag),
        component: Some(component),
        values: Some(values),
        shared: None,
        found: Vec::new(),
    };
    search.map(&mut Vec::new(), values, true);
    search.found
}

/// Returns the images that a custom resource of `component` names.
pub fn of_object(release: &str, component: Option<&str>, object: &Value) -> Vec<LocatedImage> {
    let component = component.and_then(catalog::component);
    let Some(spec) = object.get("spec").and_then(Value::as_object) else { return Vec::new() };
    let shared = component.and_then(|component| component.images.shared.as_deref());
    let mut search = ImageSearch {
        release,
        default_tag: None,
        component,
        values: None,
        shared: shared.and_then(|path| Some((path, lookup(spec, path)?.as_object()?))),
        found: Vec::new(),
    };
    search.map(&mut Vec::new(), spec, true);
    search.found
}

/// Returns the images in the template `file`, and why some may be missing.
pub fn of_template(release: &str, file: &str, text: &str) -> ImageList {
    let mut list = ImageList::default();
    for line in template::image_lines(text) {
        match line.reference {
            Some(reference) => {
                let (repository, tag, digest) = split(reference);
                list.images.push(LocatedImage {
                    release: release.to_owned(),
                    place: format!("{FILES}/{file}"),
                    repository: repository.to_owned(),
                    tag: tag.or(line.version).map(str::to_owned),
                    digest: digest.map(str::to_owned),
                    suffix: None,
                    enabled: true,
                });
            }
            None => list.unknown.push(format!(
                "{release}: {FILES}/{file}: only its evaluation shows the image `{}`",
                line.written
            )),
        }
    }
    list
}

struct ImageSearch<'a> {
    release: &'a str,
    /// The tag that applies to images whose values name none.
    default_tag: Option<&'a str>,
    component: Option<&'a CatalogComponent>,
    /// All values, for conditions.
    values: Option<&'a Map<String, Value>>,
    /// Path and value of a map with repository and version of the images that do not set their own.
    shared: Option<(&'a str, &'a Map<String, Value>)>,
    found: Vec<LocatedImage>,
}

impl ImageSearch<'_> {
    fn map(&mut self, path: &mut Vec<String>, map: &Map<String, Value>, enabled: bool) {
        let is_off = SWITCHES.iter().any(|key| map.get(*key) == Some(&Value::Bool(false)));
        let enabled = enabled && !is_off && self.is_on(path);
        self.found.extend(self.image(path, map, enabled));
        for (key, value) in map {
            path.push(key.clone());
            match value {
                Value::Object(texts) if key == "images" => self.texts(path, texts, enabled),
                Value::Object(below) => self.map(path, below, enabled),
                Value::Array(list) => {
                    for (index, element) in list.iter().enumerate() {
                        if let Value::Object(below) = element {
                            path.push(index.to_string());
                            self.map(path, below, enabled);
                            path.pop();
                        }
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
            path.pop();
        }
    }

    /// Adds the images of a map of complete references.
    fn texts(&mut self, path: &[String], texts: &Map<String, Value>, enabled: bool) {
        for (key, value) in texts {
            let Some(text) = value.as_str().filter(|text| text.contains('/')) else { continue };
            let (repository, tag, digest) = split(text);
            let (repository, tag, digest) =
                (repository.to_owned(), tag.map(str::to_owned), digest.map(str::to_owned));
            let place = [path, std::slice::from_ref(key)].concat().join(".");
            let release = self.release.to_owned();
            self.found.push(LocatedImage {
                release,
                place,
                repository,
                tag,
                digest,
                suffix: None,
                enabled,
            });
        }
    }

    fn image(
        &self,
        path: &[String],
        map: &Map<String, Value>,
        enabled: bool,
    ) -> Option<LocatedImage> {
        let place = path.join(".");
        let shared = match self.shared {
            Some((path, _)) if path == place => return None,
            // Only the key `image` shows that a map without a repository is an image.
            Some((_, shared)) if map.contains_key("image") => Some(shared),
            _ => None,
        };
        let shared =
            |key: &str| shared?.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let text = |key: &str| map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let name = text("image").or_else(|| text("name"));
        // Some charts only name the tag in a comment.
        let versioned = map.contains_key("tag")
            || map.contains_key("version")
            || path.last().is_some_and(|key| key == "image");
        let mut repository = text("repository")
            .or_else(|| shared("repository"))
            .filter(|_| name.is_some() || versioned)?
            .to_owned();
        if let Some(registry) = text("registry") {
            repository = format!("{registry}/{repository}");
        }
        if let Some(name) = name {
            repository = format!("{repository}/{name}");
        }
        let version = text("digest")
            .or_else(|| text("tag"))
            .or_else(|| text("version"))
            .or_else(|| shared("version"))
            .or(self.default_tag);
        let (tag, digest) = match version {
            Some(version) if version.starts_with("sha256:") => (None, Some(version.to_owned())),
            other => (other.map(str::to_owned), None),
        };
        let suffix = tag.as_ref().and_then(|_| self.suffix(&place));
        Some(LocatedImage {
            release: self.release.to_owned(),
            place,
            repository,
            tag,
            digest,
            suffix,
            enabled,
        })
    }

    /// Returns what the operator appends to the tag of the image at this place.
    fn suffix(&self, place: &str) -> Option<String> {
        let images = &self.component?.images;
        let suffix = images.node_suffixes.get(place)?;
        let switch = images.kernel_switches.get(place).zip(self.values);
        let is_precompiled = switch
            .is_some_and(|(switch, values)| lookup(values, switch) == Some(&Value::Bool(true)));
        Some(if is_precompiled { format!("-{{kernel}}{suffix}") } else { suffix.clone() })
    }

    /// Whether no condition disables the image at this path.
    fn is_on(&self, path: &[String]) -> bool {
        let (Some(component), Some(values)) = (self.component, self.values) else { return true };
        component.is_used(&path.join("."), |path| lookup(values, path))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn images(component: &str, version: &str, values: &Value) -> Vec<(String, String, bool)> {
        let component = catalog::component(component).unwrap();
        let found = of_component(component, version, values.as_object().unwrap());
        found
            .into_iter()
            .map(|image| (image.place.clone(), image.reference(), image.enabled))
            .collect()
    }

    fn row(place: &str, reference: &str, enabled: bool) -> (String, String, bool) {
        (place.to_owned(), reference.to_owned(), enabled)
    }

    #[test]
    fn every_way_of_writing_an_image_is_found() {
        let values = json!({
            "operator": {"repository": "r.example.com/a", "image": "op"},
            "driver": {"enabled": false, "repository": "r.example.com:5000/a", "image": "driver", "version": "580.1",
                "manager": {"repository": "r.example.com/b", "image": "manager", "version": "sha256:0a"}},
            "image": {"repository": "r.example.com/c", "tag": ""},
            "web": {"image": {"registry": "r.example.com", "repository": "d/e", "tag": "1"}},
            "images": {"cni": "r.example.com:5000/f:2", "plain": "r.example.com/g", "pinned": "r.example.com/h:3@sha256:0b"},
            "git": {"repository": "r.example.com/none"},
        });
        let expected = [
            row("operator", "r.example.com/a/op:v26.3.1", true),
            row("driver", "r.example.com:5000/a/driver:580.1-{os}", false),
            row("driver.manager", "r.example.com/b/manager@sha256:0a", false),
            row("image", "r.example.com/c:v26.3.1", true),
            row("web.image", "r.example.com/d/e:1", true),
            row("images.cni", "r.example.com:5000/f:2", true),
            row("images.plain", "r.example.com/g", true),
            row("images.pinned", "r.example.com/h@sha256:0b", true),
        ];
        assert_eq!(images("gpu-operator", "v26.3.1", &values), expected);
    }

    #[test]
    fn a_sub_chart_that_is_off_pulls_nothing() {
        for (on, expected) in [(false, vec![]), (true, vec!["r/n:1".to_owned()])] {
            let values = json!({"nfd": {"enabled": on}, "node-feature-discovery": {"image": {"repository": "r/n", "tag": "1"}}});
            let found = of_chart("gpu-operator", "v26.3.1", values.as_object().unwrap()).images;
            let of_sub_chart =
                found.iter().filter(|image| image.place == "node-feature-discovery.image");
            assert_eq!(of_sub_chart.map(LocatedImage::reference).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn precompiled_drivers_have_kernels_in_tags() {
        let driver = |values: Value| {
            let found = of_chart("gpu-operator", "v26.7.0", values.as_object().unwrap()).images;
            found.iter().find(|image| image.place == "driver").unwrap().reference()
        };
        assert_eq!(
            driver(json!({"driver": {"usePrecompiled": true, "version": "580"}})),
            "nvcr.io/nvidia/driver:580-{kernel}-{os}"
        );
        let digest = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(
            driver(json!({"driver": {"version": digest}})),
            format!("nvcr.io/nvidia/driver@{digest}"),
            "a digest has no suffix"
        );
    }

    #[test]
    fn a_custom_resource_names_images_too() {
        let object = json!({"spec": {"ofedDriver": {"repository": "r/m", "image": "doca", "version": "1"}, "nvIpam": {"image": "x"}}});
        let found = of_object("network-operator-resources", Some("network-operator"), &object);
        assert_eq!(
            found.iter().map(LocatedImage::reference).collect::<Vec<_>>(),
            ["r/m/doca:1-{os}-{architecture}"]
        );
    }

    #[test]
    fn images_of_policies_inherit_from_global() {
        let object = json!({"spec": {
            "global": {"repository": "r/m", "version": "v1"},
            "ofedDriver": {"image": "doca", "version": "2"},
            "nvIpam": {"image": "ipam", "repository": "other"},
            "secondaryNetwork": {"multus": {"image": "multus"}, "ipoib": {}},
        }});
        let found = of_object("network-operator-resources", Some("network-operator"), &object);
        let mut references: Vec<String> = found.iter().map(LocatedImage::reference).collect();
        references.sort_unstable();
        assert_eq!(
            references,
            ["other/ipam:v1", "r/m/doca:2-{os}-{architecture}", "r/m/multus:v1"]
        );
    }
}
