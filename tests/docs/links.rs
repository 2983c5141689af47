//! The links between the pages of the repository, to files and to headings, are valid.

use std::path::Path;

use crate::root;

/// The folder of the how-to pages, which have their own index.
const HOW_TO: &str = "docs/how-to";

/// Returns the pages of the documentation.
pub(super) fn pages() -> Vec<String> {
    let mut pages: Vec<String> = Vec::new();
    for folder in [".", "docs", HOW_TO, "charts/gpu-rollout"] {
        for entry in std::fs::read_dir(root(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|ending| ending == "md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages.sort();
    pages
}

/// Returns the targets of links `[text](target)`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// Returns the anchor of a heading.
fn anchor(heading: &str) -> String {
    let plain = heading.trim_start_matches('#').trim().to_lowercase();
    plain
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .collect::<String>()
        .replace(' ', "-")
}

#[test]
fn links_lead_somewhere() {
    let mut findings = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(root(&page)).unwrap();
        for target in targets(&text).filter(|target| !target.contains("://")) {
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() {
                root(&page)
            } else {
                root(&page).parent().unwrap().join(file)
            };
            if !path.exists() {
                findings.push(format!("{page}: `{target}` leads nowhere"));
            } else if !fragment.is_empty() {
                let text = std::fs::read_to_string(&path).unwrap();
                if !text
                    .lines()
                    .filter(|line| line.starts_with('#'))
                    .any(|line| anchor(line) == fragment)
                {
                    findings.push(format!("{page}: no heading for `{target}`"));
                }
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// `make site` makes the navigation of the site from the indexes.
#[test]
fn indexes_name_every_page() {
    for page in pages() {
        let folder = if page.starts_with(HOW_TO) { HOW_TO } else { "docs" };
        let index = format!("{folder}/README.md");
        let text = std::fs::read_to_string(root(&index)).unwrap();
        let link = match page.strip_prefix(folder) {
            Some(name) => name.trim_start_matches('/').to_owned(),
            None => format!("../{}", page.trim_start_matches("./")),
        };
        assert!(
            page == index || text.contains(&format!("]({link})")),
            "{index}: no row for {page}"
        );
    }
}
