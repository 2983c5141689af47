//! CRDs as objects of a release of their own. CRDs are large and get only a few annotations, so
//! this module edits the text in place instead of parsing it. Every other byte stays the vendor's.

use super::model::ReleasedCrd;
use contract::names;

/// Annotations that prevent every deployer from deleting an object: Helm (and Flux, which uses
/// Helm), Argo CD, and Flux's kustomize-controller. CRDs are too large for the annotation of
/// client-side apply, so Argo CD must use server-side apply. An object that its release no longer
/// contains must not keep the release's Application out of sync.
pub(super) const KEEP: [(&str, &str); 4] = [
    names::HELM_POLICY_ANNOTATION,
    (names::ARGO_OPTIONS_ANNOTATION, names::ARGO_KEPT),
    (names::ARGO_COMPARE_ANNOTATION, names::ARGO_IGNORE_EXTRANEOUS),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// Reads the CRDs of one file of the catalog.
///
/// # Errors
/// How the text differs from a generated CRD, as a sentence.
pub(super) fn read(text: &str) -> Result<Vec<ReleasedCrd>, String> {
    let has_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let crds: Vec<ReleasedCrd> = documents(text)
        .into_iter()
        .filter(|document| document.lines().any(has_content))
        .map(crd)
        .collect::<Result<_, String>>()?;
    if crds.is_empty() { Err("contains no CRD".to_owned()) } else { Ok(crds) }
}

fn documents(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut start = 0;
    let first = text.starts_with("---").then_some(0);
    let further = text.match_indices("\n---").map(|(end, _)| end + 1);
    for at in first.into_iter().chain(further) {
        let line = text[at..].split_inclusive('\n').next().unwrap_or_default();
        if line.trim_end() == "---" {
            documents.push(&text[start..at]);
            start = at + line.len();
        }
    }
    documents.push(&text[start..]);
    documents
}

fn crd(document: &str) -> Result<ReleasedCrd, String> {
    let top_level = |line: &str| !line.starts_with([' ', '#', '-']) && !line.trim().is_empty();
    if !document.lines().any(|line| line.trim_end() == "kind: CustomResourceDefinition") {
        return Err("contains an object that is not a CustomResourceDefinition".to_owned());
    }
    let keep: String =
        KEEP.iter().flat_map(|(key, value)| ["    ", *key, ": ", *value, "\n"]).collect();
    let mut text = String::with_capacity(document.len() + keep.len() + 32);
    let (mut name, mut in_metadata, mut kept) = (None, false, false);
    let mut at = 0;
    for line in document.split_inclusive('\n') {
        if top_level(line) {
            if in_metadata {
                if !kept {
                    text.extend(["  annotations:\n", keep.as_str()]);
                    kept = true;
                }
                // The rest is the vendor's.
                break;
            }
            in_metadata = line.trim_end() == "metadata:";
        }
        at += line.len();
        text.push_str(line);
        if in_metadata && line.trim_end() == "  annotations:" {
            text.push_str(&keep);
            kept = true;
        }
        if in_metadata && let Some(found) = line.strip_prefix("  name:") {
            name = Some(found.trim().trim_matches(['"', '\'']).to_owned());
        }
        if in_metadata && KEEP.iter().any(|(key, _)| line.contains(key)) {
            return Err("already has an annotation that keeps it".to_owned());
        }
    }
    text.push_str(&document[at..]);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    match name {
        Some(name) if kept => Ok(ReleasedCrd { name, text: text.into() }),
        Some(_) => {
            Err("`metadata` is not written as a block of lines, followed by `spec`".to_owned())
        }
        None => Err("has no `metadata.name` on a line of its own".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const PLAIN: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: a.example.com\nspec:\n  group: example.com\n";

    #[test]
    fn the_annotation_is_added_with_and_without_others() {
        let annotated = PLAIN.replace("  name:", "  annotations:\n    b: c\n  name:");
        for text in [PLAIN, &annotated, &format!("# comment\n---\n{PLAIN}")] {
            let crds = read(text).unwrap();
            let parsed: Value = yaml::from_str(crds[0].text.as_str()).unwrap();
            assert_eq!(
                parsed["metadata"]["annotations"]["helm.sh/resource-policy"], "keep",
                "{text}"
            );
            assert_eq!(
                (crds[0].name.as_str(), &parsed["spec"]["group"]),
                ("a.example.com", &Value::from("example.com"))
            );
        }
        assert_eq!(
            read(&format!("{PLAIN}---\n{}", PLAIN.replace("a.ex", "b.ex"))).unwrap().len(),
            2
        );
    }

    #[test]
    fn separators_are_lines_of_three_dashes() {
        for (text, expected) in [
            ("", &[""][..]),
            ("---", &["", ""]),
            ("---\na\n", &["", "a\n"]),
            ("a\n---", &["a\n", ""]),
            ("a\n---\r\nb\r\n--- \nc", &["a\n", "b\r\n", "c"]),
            ("\n---\n---\n", &["\n", "", ""]),
            ("--- # a\n----\n a---\n ---\nb", &["--- # a\n----\n a---\n ---\nb"]),
        ] {
            assert_eq!(documents(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_such_document_is_refused() {
        for bad in [
            "",
            "# nothing\n",
            "kind: ConfigMap\nmetadata:\n  name: a\nspec: {}\n",
            &PLAIN.replace("metadata:\n  name: a.example.com\n", ""),
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(
            read(
                &PLAIN
                    .replace("metadata:\n  name: a.example.com", "metadata: {name: a.example.com}")
            )
            .is_err()
        );
    }

    #[test]
    fn every_catalog_crd_is_readable_and_only_annotated() {
        for name in catalog::component_names() {
            let component = catalog::component(name).unwrap();
            for version in &component.versions {
                for file in component.crds(version, &serde_json::Map::new(), &[]) {
                    for crd in read(file.text)
                        .unwrap_or_else(|reason| panic!("{name} {}: {reason}", file.name))
                    {
                        let without =
                            KEEP.iter().fold(crd.text.as_str().to_owned(), |text, (key, value)| {
                                text.replacen(&format!("    {key}: {value}\n"), "", 1)
                            });
                        // A CRD without annotations also gets the key for them.
                        let plain = without.replacen("  annotations:\n", "", 1);
                        let is_as_it_was =
                            file.text.contains(&without) || file.text.contains(&plain);
                        assert!(
                            without.len() < crd.text.len() && is_as_it_was,
                            "{name} {}",
                            crd.name
                        );
                    }
                }
            }
        }
    }
}
