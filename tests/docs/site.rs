//! The site that `make site` builds: its navigation has every page, and every link leads to a file
//! and a heading of the site. No page loads anything from elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

use super::links::pages;
use crate::root;

/// The site.
const SITE: &str = "target/site";
/// The page with the navigation, which all pages show.
const NAVIGATION: &str = "toc.html";

/// A page of the site.
#[derive(Default)]
struct SitePage {
    /// The anchors of its headings and other elements.
    anchors: BTreeSet<String>,
    /// What it links to or loads, each with the name of its element.
    targets: Vec<(String, String)>,
}

/// Reads a page. mdBook writes each attribute in double quotes, with its value escaped.
fn read(html: &str) -> SitePage {
    let element = Regex::new(r#"<([a-z][a-z0-9]*)((?:[^>"]|"[^"]*")*)>"#).unwrap();
    let attribute = Regex::new(r#"[ \n](href|id|src)="([^"]*)""#).unwrap();
    let mut page = SitePage::default();
    for [name, attributes] in element.captures_iter(html).map(|found| found.extract().1) {
        for [key, value] in attribute.captures_iter(attributes).map(|found| found.extract().1) {
            let value = value.replace("&amp;", "&");
            if key == "id" {
                page.anchors.insert(value);
            } else {
                page.targets.push((name.to_owned(), value));
            }
        }
    }
    page
}

/// Adds the files of a folder and of the folders in it.
fn add_files(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}: run `make site`", folder.display()));
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            add_files(&path, files);
        } else {
            files.insert(path.strip_prefix(root(SITE)).unwrap().to_owned());
        }
    }
}

/// The files of the site. Their paths are those in the site.
struct Site {
    files: BTreeSet<PathBuf>,
    pages: BTreeMap<PathBuf, SitePage>,
}

fn site() -> Site {
    let mut files = BTreeSet::new();
    add_files(&root(SITE), &mut files);
    let is_page = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "html");
    let pages = files
        .iter()
        .filter(is_page)
        .map(|path| (path.clone(), read(&std::fs::read_to_string(root(SITE).join(path)).unwrap())))
        .collect();
    Site { files, pages }
}

/// Returns the path in the site to which a relative link of a page leads. `None` if it leads out of
/// the site.
fn resolved(page: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut path = page.parent()?.to_owned();
    for part in link.split('/') {
        match part {
            "." => {}
            ".." => {
                if !path.pop() {
                    return None;
                }
            }
            name => path.push(name),
        }
    }
    Some(path)
}

/// Returns what is wrong with a link.
fn mistake(site: &Site, page: &Path, element: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return (element != "a").then_some("is loaded from elsewhere");
    }
    if target.starts_with('/') {
        return Some("depends on the address of the site");
    }
    let (link, anchor) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolved(page, link).filter(|path| site.files.contains(path)) else {
        return Some("leads nowhere: every page needs a row in the table of an index");
    };
    let is_heading = |page: &SitePage| page.anchors.contains(anchor);
    let is_found = anchor.is_empty() || site.pages.get(&path).is_some_and(is_heading);
    (!is_found).then_some("has no heading")
}

#[test]
#[ignore = "needs the built site: make site"]
fn site_has_no_dead_links() {
    let site = site();
    let mut findings = Vec::new();
    for (path, page) in &site.pages {
        for (element, target) in &page.targets {
            if let Some(mistake) = mistake(&site, path, element, target) {
                findings.push(format!("{}: `{target}` {mistake}", path.display()));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
#[ignore = "needs the built site: make site"]
fn navigation_of_site_has_every_page() {
    let mut found = site().pages;
    let navigation = found.remove(Path::new(NAVIGATION)).unwrap();
    let listed: BTreeSet<PathBuf> = navigation
        .targets
        .iter()
        .filter(|(element, _)| element == "a")
        .filter_map(|(_, target)| resolved(Path::new(NAVIGATION), target))
        .collect();
    let expected: BTreeSet<PathBuf> = pages()
        .iter()
        .map(|page| page.trim_start_matches("./").replace("README.md", "index.md"))
        .map(|page| Path::new(&page).with_extension("html"))
        .collect();
    assert_eq!(listed, expected, "the navigation");
    assert!(found.into_keys().eq(expected), "the site has other pages than its navigation");
}
