//! Writes the sources of charts, one for each file in `sources/`.

use minijinja::context;

use super::chart::{ChartSourceKind, FluxChart};
use super::verification;
use crate::file::BundleFile;
use crate::source::BundleSource;
use crate::template::{RenderError, TemplateSet};
use contract::digest::sha256;

/// The longest name, because it is also the value of a label.
const LONGEST: usize = 63;
/// How many digits of a digest make a name unique.
const DIGEST_LENGTH: usize = 8;

/// Returns the sources that `found` needs, each once, in the order of their first use. Charts of
/// the bundle are verified as `source` is. Those of vendors are not: other signers sign them.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(
    templates: &TemplateSet,
    source: &BundleSource,
    found: &[FluxChart],
) -> Result<Vec<BundleFile>, RenderError> {
    let mut files: Vec<BundleFile> = Vec::new();
    let verification = verification::spec(source);
    for chart in found {
        let (template, name, url, revision) = match &chart.origin {
            // The bundle's own source is applied with the Kustomization, not by it.
            ChartSourceKind::Git { .. } => continue,
            ChartSourceKind::Helm { repository, url } => {
                ("helmrepository.yaml.j2", repository, url, None)
            }
            ChartSourceKind::Oci { artifact, url, tag } => {
                ("ocirepository.yaml.j2", artifact, url, Some(tag))
            }
            ChartSourceKind::Kustomization { repository, source } => {
                ("gitrepository.yaml.j2", repository, &source.repository, Some(&source.revision))
            }
        };
        let ref_kind = if let ChartSourceKind::Kustomization { source, .. } = &chart.origin
            && source.is_commit()
        {
            "commit"
        } else {
            "tag"
        };
        let verify = verification.as_ref().filter(|_| chart.is_local);
        let path = format!("sources/{name}.yaml");
        if !files.iter().any(|file| file.path == path) {
            files.push(BundleFile::text(
                path,
                templates.render(template, context! { name, url, revision, ref_kind, verify })?,
            ));
        }
    }
    Ok(files)
}

/// Returns the name of the HelmRepository at `url`, derived from the address without its scheme. It
/// differs from those of all other `urls`.
pub(super) fn name(url: &str, urls: &[&str]) -> String {
    let readable = readable(url);
    let is_taken = urls.iter().any(|other| *other != url && self::readable(other) == readable);
    if is_taken || readable.len() > LONGEST { with_digest(&readable, url) } else { readable }
}

fn readable(url: &str) -> String {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
    };
    place.chars().map(plain).collect::<String>().trim_matches('-').to_owned()
}

/// Returns the name of the OCIRepository of a release's chart. Another version is another object,
/// so that the HelmRelease that names it changes, and those that depend on it wait.
pub(super) fn artifact(release: &str, version: &str) -> String {
    with_digest(release, version)
}

fn with_digest(name: &str, text: &str) -> String {
    let kept: String = name.chars().take(LONGEST - DIGEST_LENGTH - 1).collect();
    format!("{}-{}", kept.trim_matches('-'), &sha256(text.as_bytes())[..DIGEST_LENGTH])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_objects_and_differ() {
        let urls = [
            "https://a.example.com/x",
            "http://a.example.com/x",
            "https://A.example.com:80/x",
            "https://a.example.com/x-",
        ];
        let mut names: Vec<String> = urls.iter().map(|url| name(url, &urls)).collect();
        assert_eq!(name(urls[0], &urls[..1]), "a-example-com-x");
        names.push(name(&format!("https://{}", "x".repeat(100)), &[]));
        names.extend([artifact(&"x".repeat(53), "1.0.0"), artifact(&"x".repeat(53), "1.0.0+d1")]);
        for name in &names {
            let inner = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            assert!(
                inner && name.len() <= LONGEST && !name.starts_with('-') && !name.ends_with('-'),
                "{name}"
            );
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
