//! The repositories of a state file, and what they are called.

use serde::Serialize;

/// One chart repository.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct HelmfileRepository {
    /// What releases call it.
    pub name: String,
    /// Its address; for OCI without the scheme.
    pub url: String,
    /// Whether it is an OCI registry.
    pub oci: bool,
}

/// The repositories that the releases so far come from.
#[derive(Debug, Default)]
pub struct HelmfileRepositories(Vec<HelmfileRepository>);

impl HelmfileRepositories {
    /// In the order in which they were named.
    pub fn list(&self) -> &[HelmfileRepository] {
        &self.0
    }

    /// The name of the repository at `url`, which is added if it is new.
    ///
    /// Helmfile adds repositories to the user's own Helm, over one of the same name. So the name is made from the whole address:
    /// what is replaced is the same repository.
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

    /// What a release calls the chart at `reference` (`oci://…/chart`).
    pub fn oci_chart(&mut self, reference: &str) -> String {
        let place = reference.strip_prefix("oci://").unwrap_or(reference);
        match place.rsplit_once('/') {
            Some((registry, chart)) => format!("{}/{chart}", self.name_of(registry, true)),
            // An address without a path names no chart; Helm says so better than anything here could.
            None => reference.to_owned(),
        }
    }
}

/// The letters and digits of an address without its scheme, with `-` between them.
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
