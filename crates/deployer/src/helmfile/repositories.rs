//! The repositories of a state file, and their names.

use serde::Serialize;

/// One chart repository.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct HelmfileRepository {
    /// The name that releases use.
    pub name: String,
    /// The address; for OCI without the scheme.
    pub url: String,
    /// Whether it is an OCI registry.
    pub oci: bool,
}

/// The repositories of the releases so far.
#[derive(Debug, Default)]
pub struct HelmfileRepositories(Vec<HelmfileRepository>);

impl HelmfileRepositories {
    /// Returns the repositories in the order of their first use.
    pub fn list(&self) -> &[HelmfileRepository] {
        &self.0
    }

    /// Returns the name of the repository at `url`, and adds it if it is new.
    ///
    /// helmfile adds repositories to the user's own Helm, and replaces one of the same name. So the
    /// name derives from the whole address, and helmfile can only replace the same repository.
    pub fn name_of(&mut self, url: &str, oci: bool) -> String {
        if let Some(known) = self.0.iter().find(|known| known.url == url && known.oci == oci) {
            return known.name.clone();
        }
        let slug = slug(url);
        let mut name = slug.clone();
        let mut number = 1;
        while self.0.iter().any(|known| known.name == name) {
            number += 1;
            name = format!("{slug}-{number}");
        }
        self.0.push(HelmfileRepository { name: name.clone(), url: url.to_owned(), oci });
        name
    }

    /// Returns the name that a release uses for the chart at `reference` (`oci://…/chart`).
    pub fn oci_chart(&mut self, reference: &str) -> String {
        let place = reference.strip_prefix("oci://").unwrap_or(reference);
        match place.rsplit_once('/') {
            Some((registry, chart)) => format!("{}/{chart}", self.name_of(registry, true)),
            // An address without a path names no chart. Helm reports that with a good message.
            None => reference.to_owned(),
        }
    }
}

/// Returns the letters and digits of an address without its scheme, joined with `-`.
fn slug(url: &str) -> String {
    let place = url.split_once("://").map_or(url, |(_, place)| place).to_lowercase();
    let words = place
        .split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_exactly_one_name() {
        let mut repositories = HelmfileRepositories::default();
        assert_eq!(
            repositories.name_of("https://helm.example.com/nvidia", false),
            "helm-example-com-nvidia"
        );
        assert_eq!(
            repositories.name_of("https://helm.example.com/nvidia", false),
            "helm-example-com-nvidia"
        );
        assert_eq!(
            repositories.name_of("https://helm-example.com/nvidia", false),
            "helm-example-com-nvidia-2"
        );
        assert_eq!(repositories.name_of("http://127.0.0.1:8080", false), "127-0-0-1-8080");
        assert_eq!(repositories.list().len(), 3);
    }

    #[test]
    fn an_oci_chart_is_named_by_its_registry() {
        let mut repositories = HelmfileRepositories::default();
        assert_eq!(
            repositories.oci_chart("oci://registry.example.com/charts/nfd"),
            "registry-example-com-charts/nfd"
        );
        let known = HelmfileRepository {
            name: "registry-example-com-charts".to_owned(),
            url: "registry.example.com/charts".to_owned(),
            oci: true,
        };
        assert_eq!(repositories.list(), [known]);
    }
}
