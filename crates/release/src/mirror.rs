//! Air gap: sets mirrored registries and image pull Secrets in the values that the charts read.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::acceptance::{containers, pod_specs};
use super::images::template::with_images;
use super::images::{ImageList, LocatedImage, of_chart, of_object, of_template, pull_secrets};
use super::model::{
    HookReleasePlan, ManifestsRelease, ReleaseKind, ReleasePlan, TemplatesRelease, UpstreamRelease,
};
use super::values::{over, set};
use catalog::{self, hook_chart, lookup};
use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::grammar::is_image_name;
use contract::image_reference::has_registry;
use contract::user_info::mask_user_info;

/// One `--registry-mirror [FROM=]TO`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegistryMirror {
    /// The prefix of the image names that it applies to; `None` for all images with a registry.
    from: Option<String>,
    /// The replacement of the prefix.
    to: String,
}

/// Why a text is not a [`RegistryMirror`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryMirrorError {
    /// The text does not have the form of a registry.
    #[error(
        "expected `[FROM=]TO`, two prefixes of image names such as `nvcr.io=registry.example.com/nvcr`, found `{0}`"
    )]
    Form(String),
    /// An address instead of a name.
    #[error(
        "`{0}` has a scheme; write image names without one, such as `registry.example.com/nvcr`"
    )]
    Scheme(String),
}

impl FromStr for RegistryMirror {
    type Err = RegistryMirrorError;

    fn from_str(text: &str) -> Result<Self, RegistryMirrorError> {
        if text.contains("://") {
            return Err(RegistryMirrorError::Scheme(mask_user_info(text, text)));
        }
        let (from, to) = text.split_once('=').map_or((None, text), |(from, to)| (Some(from), to));
        let fits = |part: &str| is_image_name(part.strip_suffix('/').unwrap_or(part));
        let trimmed = |part: &str| part.trim_end_matches('/').to_owned();
        if !fits(to) || !from.is_none_or(fits) {
            return Err(RegistryMirrorError::Form(mask_user_info(text, text)));
        }
        Ok(Self { from: from.map(trimmed), to: trimmed(to) })
    }
}

impl fmt::Display for RegistryMirror {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Some(from) => write!(formatter, "{from}={}", self.to),
            None => formatter.write_str(&self.to),
        }
    }
}

/// Returns an image name (or only its prefix) with the first matching mirror, longest `FROM` first.
fn mirrored(name: &str, mirrors: &[RegistryMirror]) -> Option<String> {
    let fits = |from: &str| {
        name.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with(['/', ':', '@']))
    };
    let named = mirrors.iter().filter_map(|mirror| Some((mirror.from.as_deref()?, mirror)));
    let best = named
        .filter_map(|(from, mirror)| Some((from.len(), format!("{}{}", mirror.to, fits(from)?))))
        .max();
    if let Some((_, best)) = best {
        return Some(best);
    }
    let any = mirrors.iter().find(|mirror| mirror.from.is_none())?;
    let (registry, rest) = name
        .split_once('/')
        .map_or((name, ""), |(registry, _)| (registry, &name[registry.len()..]));
    Some(if has_registry(registry) {
        format!("{}{rest}", any.to)
    } else {
        format!("{}/{name}", any.to)
    })
}

/// The air-gap settings to write into the values.
#[derive(Clone, Copy, Debug)]
pub(super) struct AirGapValues<'a> {
    pub(super) mirrors: &'a [RegistryMirror],
    /// Names of Secrets in each release's namespace.
    pub(super) pull_secrets: &'a [String],
}

impl AirGapValues<'_> {
    /// Writes registries and Secrets into the plan's values. Values that cannot be changed become
    /// notes.
    pub(super) fn apply(self, plan: &mut ReleasePlan) {
        if self.mirrors.is_empty() && self.pull_secrets.is_empty() {
            return;
        }
        let mut notes = Vec::new();
        for release in &mut plan.releases {
            match &mut release.kind {
                ReleaseKind::Upstream(upstream) => {
                    notes.extend(self.upstream(&release.name, upstream));
                }
                ReleaseKind::Manifests(manifests) => {
                    notes.extend(self.manifests(&release.name, manifests));
                }
                ReleaseKind::Templates(templates) => {
                    notes.extend(self.templates(&release.name, templates));
                }
                ReleaseKind::Hook(hook) => {
                    self.hook(hook_chart::image_repository(), hook);
                    notes.extend(self.tests(&release.name, hook));
                }
                ReleaseKind::Kustomization(_) => notes.push(format!(
                    "{}: images of a kustomization are pulled from its own registries; set them in its Git repository",
                    release.name
                )),
                ReleaseKind::Crds(_) => {}
            }
        }
        plan.notes.extend(notes);
    }

    /// Writes into the settings of a hook. A mirror replaces `default`, the repository in the hook
    /// chart, and the chart's tag or digest stays. A default without a registry is an image that
    /// the user must build: no mirror has it.
    fn hook(self, default: &str, hook: &mut HookReleasePlan) {
        let is_mirrored = has_registry(default) && hook.image_repository().is_none();
        let mirror = mirrored(default, self.mirrors).filter(|_| is_mirrored);
        if mirror.is_none() && self.pull_secrets.is_empty() {
            return;
        }
        let image = hook.settings.entry("image").or_insert_with(|| json!({}));
        if let Some(repository) = mirror {
            image["repository"] = json!(repository);
        }
        if !self.pull_secrets.is_empty() {
            image["pullSecrets"] = json!(self.pull_secrets);
        }
    }

    /// Writes into the pods of acceptance tests. Returns a note if they get pull Secrets, because
    /// these must be in the namespace of the tests.
    fn tests(self, name: &str, hook: &mut HookReleasePlan) -> Option<String> {
        let mut has_secrets = false;
        for spec in pod_specs(&mut hook.settings) {
            for container in containers(spec) {
                let image = container.get("image").and_then(Value::as_str);
                if let Some(new) = image.and_then(|image| mirrored(image, self.mirrors)) {
                    container.insert("image".to_owned(), json!(new));
                }
            }
            // Keeps the recipe's own Secrets.
            if !self.pull_secrets.is_empty() && !spec.contains_key("imagePullSecrets") {
                spec.insert("imagePullSecrets".to_owned(), self.secrets(false));
                has_secrets = true;
            }
        }
        has_secrets.then(|| {
            format!("{name}: the pods of acceptance tests need the pull Secrets in namespace {ACCEPTANCE_NAMESPACE}")
        })
    }

    fn upstream(self, name: &str, upstream: &mut UpstreamRelease) -> Vec<String> {
        let ImageList { images, unknown } = of_chart(name, &upstream.version, &upstream.values);
        let mut notes: Vec<String> = unknown
            .into_iter()
            .map(|reason| {
                format!("{reason}: its images are pulled from the chart's own registries; set them in its values")
            })
            .collect();
        let known = catalog::component(name)
            .and_then(|component| Some((component, component.version(&upstream.version)?)));
        let Some((component, details)) = known else { return notes };
        let all = over(component.defaults(Some(details)), &upstream.values);
        for image in &images {
            notes.extend(self.rewrite(image, &all, &mut upstream.values));
        }
        if !self.pull_secrets.is_empty() {
            for place in pull_secrets::of_chart(component, details, &all) {
                // Keeps the recipe's own Secrets.
                if lookup(&upstream.values, &place.path).is_none() {
                    let secrets = self.secrets(place.is_by_name);
                    let written = set(&mut upstream.values, &place.path, secrets);
                    notes.extend(written.err().map(|path| no_place(name, &path)));
                }
            }
        }
        notes
    }

    /// Writes into custom resources, whose images are in `spec` next to their Secrets.
    fn manifests(self, name: &str, manifests: &mut ManifestsRelease) -> Vec<String> {
        let mut notes = Vec::new();
        for object in &mut manifests.objects {
            let images = of_object(name, manifests.component.as_deref(), object);
            let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
                continue;
            };
            let component = manifests.component.as_deref().and_then(catalog::component);
            let shared = component.and_then(|component| component.images.shared.as_deref());
            let shared = shared.map(|path| format!("{path}.repository"));
            let all = spec.clone();
            let registry = shared.as_deref().and_then(|path| lookup(&all, path)?.as_str());
            if let Some((path, new)) =
                shared.as_deref().zip(registry.and_then(|text| mirrored(text, self.mirrors)))
            {
                notes.extend(set(spec, path, json!(new)).err().map(|path| no_place(name, &path)));
            }
            for image in images {
                let all = spec.clone();
                let inherits = shared.is_some()
                    && lookup(&all, &format!("{}.repository", image.place)).is_none();
                if !inherits {
                    notes.extend(self.rewrite(&image, &all, spec));
                }
                let place = format!("{}.imagePullSecrets", image.place);
                if !self.pull_secrets.is_empty() && lookup(spec, &place).is_none() {
                    notes.extend(
                        set(spec, &place, self.secrets(true))
                            .err()
                            .map(|path| no_place(name, &path)),
                    );
                }
            }
        }
        notes
    }

    /// Writes into the recipe's own templates. They have no common place for Secrets.
    fn templates(self, name: &str, templates: &mut TemplatesRelease) -> Option<String> {
        let mut has_images = false;
        for (file, text) in &mut templates.files {
            has_images |= !of_template(name, file, text).images.is_empty();
            *text = with_images(text, |image| mirrored(image, self.mirrors));
        }
        (has_images && !self.pull_secrets.is_empty()).then(|| {
            format!("{name}: pods of manifests do not get the pull Secrets; set them in the manifests, or in the namespace's ServiceAccounts")
        })
    }

    /// Writes the mirrored registry of an image into `values`; returns a note if the values have no
    /// key for it. `all` are the values that the image was found in, without those of sub-charts.
    fn rewrite(
        self,
        image: &LocatedImage,
        all: &Map<String, Value>,
        values: &mut Map<String, Value>,
    ) -> Option<String> {
        let below = |key: &str| format!("{}.{key}", image.place);
        let text =
            |path: &str| lookup(all, path).and_then(Value::as_str).filter(|text| !text.is_empty());
        let spots = [image.place.clone(), below("registry"), below("repository")];
        let found = spots.iter().find_map(|spot| Some((spot.as_str(), text(spot)?)));
        let (spot, name) = found.unwrap_or((&spots[2], &image.repository));
        let new = mirrored(name, self.mirrors)?;
        set(values, spot, json!(new)).err().map(|path| no_place(&image.release, &path))
    }

    /// Returns Secrets as names, or as references in Kubernetes' form.
    fn secrets(self, by_name: bool) -> Value {
        self.pull_secrets
            .iter()
            .map(|name| if by_name { json!(name) } else { json!({"name": name}) })
            .collect()
    }
}

/// Returns the note for a recipe that has another type where the chart has a map.
fn no_place(release: &str, path: &str) -> String {
    format!(
        "{release}: `values.{path}` is not a map, so the images below it are pulled as set in the recipe"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmbeddedCatalog, PlanOptions, plan};
    use recipe::load::load;
    use recipe::read::FileSystemReader;

    fn mirrors(texts: &[&str]) -> Vec<RegistryMirror> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_longest_beginning_decides() {
        let some = mirrors(&[
            "r.example.com/all",
            "nvcr.io=r.example.com/nvcr",
            "nvcr.io/nvidia/k8s=r.example.com/k8s/",
        ]);
        for (name, expected) in [
            ("nvcr.io/nvidia/driver", "r.example.com/nvcr/nvidia/driver"),
            ("nvcr.io/nvidia/k8s/toolkit", "r.example.com/k8s/toolkit"),
            ("nvcr.io/nvidia/k8s-device-plugin", "r.example.com/nvcr/nvidia/k8s-device-plugin"),
            ("quay.io/a:1", "r.example.com/all/a:1"),
            ("localhost:5000/a", "r.example.com/all/a"),
            ("library/nginx", "r.example.com/all/library/nginx"),
        ] {
            assert_eq!(mirrored(name, &some).as_deref(), Some(expected));
        }
        assert_eq!(mirrored("quay.io/a", &mirrors(&["nvcr.io=x"])), None);
        for bad in
            ["", "=", "a=", "=b", "https://a", "a b", "/a", "a=b=c", "a;b", "-a", "a=-b", "a/.b"]
        {
            assert!(bad.parse::<RegistryMirror>().is_err(), "{bad}");
        }
    }

    #[test]
    fn password_in_mirror_is_not_repeated() {
        for bad in ["https://user:word@a/b", "nvcr.io=user:word@a/b", "user:word@a"] {
            let error = bad.parse::<RegistryMirror>().unwrap_err().to_string();
            assert!(error.contains("***@a") && !error.contains("word"), "{error}");
        }
    }

    #[test]
    fn hook_image_of_a_release_is_mirrored() {
        let recipe = crate::fixture::recipe(json!({}));
        let plan = plan(&recipe, &crate::fixture::catalog(), &PlanOptions::default()).unwrap();
        let planned = plan.releases.iter().find_map(|release| release.kind.hook()).unwrap();
        let released = "registry.example.org/tools/gpu-rollout";
        let own = "registry.example.net/own";
        for (option, default, expected) in [
            (None, released, Some("mirror.example.com/tools/gpu-rollout")),
            (None, "gpu-rollout", None),
            (Some(own), released, Some(own)),
        ] {
            let mut hook = planned.clone();
            if let Some(own) = option {
                hook.settings.insert("image".to_owned(), json!({"repository": own}));
            }
            let mirrors = mirrors(&["mirror.example.com"]);
            AirGapValues { mirrors: &mirrors, pull_secrets: &[] }.hook(default, &mut hook);
            assert_eq!(hook.image_repository(), expected, "{option:?} {default}");
        }
    }

    /// With a mirror, all images that values name come from it.
    #[test]
    fn every_known_library_image_can_be_mirrored() {
        for name in catalog::recipe_names() {
            let recipe = load(name, &[], &mut FileSystemReader).unwrap().recipe;
            let options = PlanOptions {
                registry_mirrors: mirrors(&["mirror.example.com"]),
                pull_secrets: vec!["pull".to_owned()],
                ..PlanOptions::default()
            };
            let plan = plan(&recipe, &EmbeddedCatalog, &options).unwrap();
            for release in &plan.releases {
                let images = match &release.kind {
                    ReleaseKind::Upstream(upstream) => {
                        of_chart(&release.name, &upstream.version, &upstream.values).images
                    }
                    ReleaseKind::Manifests(manifests) => manifests
                        .objects
                        .iter()
                        .flat_map(|object| {
                            of_object(&release.name, manifests.component.as_deref(), object)
                        })
                        .collect(),
                    ReleaseKind::Hook(hook) => {
                        assert_eq!(
                            hook.settings["image"]["pullSecrets"],
                            json!(["pull"]),
                            "{name}: {}",
                            release.name
                        );
                        Vec::new()
                    }
                    ReleaseKind::Templates(templates) => templates
                        .files
                        .iter()
                        .flat_map(|(file, text)| of_template(&release.name, file, text).images)
                        .collect(),
                    ReleaseKind::Crds(_) | ReleaseKind::Kustomization(_) => Vec::new(),
                };
                for image in images {
                    assert!(
                        image.repository.starts_with("mirror.example.com/"),
                        "{name}: {image:?}"
                    );
                }
            }
        }
    }
}
