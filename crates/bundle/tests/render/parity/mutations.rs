//! Changes every line of a deployer's files, one at a time. Parity must report the release and a
//! fact, unless the line is in the table of settings without a counterpart in other deployers.

use std::collections::BTreeMap;

use bundle::BundleTree;
use parity::{BundleFacts, ParityReport, ReadbackError, TextFiles, compare, read_facts};

use super::{REGISTRY, bundle, bundle_from, files, lines};

mod charts;
mod deploy_script;
mod meaningless;
mod own_files;

const RECIPE: &str = "eks-gb200-training";
/// Files in numbered folders that facts read; of others only the digest counts, and those of short
/// texts are had faster.
const READ: [&str; 6] = [
    "Chart.yaml",
    "values.yaml",
    "rollout.yaml",
    "rights.yaml",
    "job.yaml",
    "namespace-gpu-operator.yaml",
];

/// A bundle's texts.
fn texts(tree: &BundleTree) -> BTreeMap<String, String> {
    let short = |(path, text): (&str, &str)| {
        let is_read =
            !is_numbered(path) || READ.iter().any(|name| path.ends_with(&format!("/{name}")));
        // The second hook chart is the same, and is read in the same way.
        let is_copy = path.contains("nvidia-dra-driver-gpu-post/");
        let text = match path {
            path if is_copy && path.ends_with("/rights.yaml") => "[]\n",
            path if is_copy && path.ends_with("/values.yaml") => "{}\n",
            path if path.contains("-crds/templates/") => "kind: CustomResourceDefinition\n",
            _ if is_read => text,
            _ => "x\n",
        };
        (path.to_owned(), text.to_owned())
    };
    files(tree).iter().map(short).collect()
}

fn is_numbered(path: &str) -> bool {
    path.starts_with(|first: char| first.is_ascii_digit())
}

/// One line of one file with another text.
struct Mutation {
    file: String,
    /// From 1.
    line: usize,
    /// The line before it.
    before: String,
    from: String,
    /// `None` removes the line.
    to: Option<String>,
}

impl Mutation {
    fn shown(&self) -> String {
        format!(
            "{}:{}: `{}` → `{}`",
            self.file,
            self.line,
            self.from.trim(),
            self.to.as_deref().unwrap_or("(gone)").trim()
        )
    }

    fn applied(&self, texts: &BTreeMap<String, String>) -> TextFiles {
        let changed = |(path, text): (&String, &String)| {
            if *path != self.file {
                return (path.clone(), text.clone());
            }
            let mut lines: Vec<&str> = text.lines().collect();
            match &self.to {
                Some(line) => lines[self.line - 1] = line,
                None => drop(lines.remove(self.line - 1)),
            }
            (path.clone(), lines.join("\n") + "\n")
        };
        texts.iter().map(changed).collect()
    }

    /// The release that the file is about, if it is about one.
    fn release(&self) -> Option<&str> {
        let folder = self.file.split('/').find(|part| is_numbered(part))?;
        Some(folder.trim_end_matches(".yaml").split_once('-')?.1)
    }
}

/// One recipe with every deployer.
struct Scene {
    facts: Vec<BundleFacts>,
    texts: Vec<BTreeMap<String, String>>,
}

impl Scene {
    fn new() -> Self {
        Self::of(&deployer::names())
    }

    /// Only these deployers, because charts are read in the same way for all of them.
    fn of(names: &[&str]) -> Self {
        Self::from_trees(names.iter().map(|name| bundle(RECIPE, name.parse().unwrap())))
    }

    /// One deployer that reads its bundle from a registry, and Helm.
    fn with_registry(name: &str) -> Self {
        let pushed = bundle_from(RECIPE, name.parse().unwrap(), REGISTRY);
        Self::from_trees([bundle(RECIPE, "helm".parse().unwrap()), pushed])
    }

    fn from_trees(trees: impl IntoIterator<Item = BundleTree>) -> Self {
        let texts: Vec<_> = trees.into_iter().map(|tree| texts(&tree)).collect();
        let facts = texts
            .iter()
            .map(|texts| read_facts(&texts.clone().into_iter().collect()).unwrap())
            .collect();
        Self { facts, texts }
    }

    /// Parity with other files of the deployer at `index`.
    fn parity(&self, index: usize, files: &TextFiles) -> Result<ParityReport, ReadbackError> {
        let changed = read_facts(files)?;
        let others = self
            .facts
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .map(|(_, facts)| facts.clone());
        Ok(compare(&[changed].into_iter().chain(others).collect::<Vec<_>>()))
    }

    /// Changes every line for which `change` has another text. Only `expected` decides whether
    /// parity's result is right.
    fn check(
        &self,
        change: impl Fn(&str, &str) -> Option<Option<String>>,
        expected: impl Fn(&str, &Mutation, &Result<ParityReport, ReadbackError>) -> bool,
    ) {
        let (mut count, mut unnamed) = (0, Vec::new());
        for (index, BundleFacts { deployer, .. }) in self.facts.iter().enumerate() {
            for (file, text) in &self.texts[index] {
                for (at, from) in text.lines().enumerate() {
                    let Some(to) = change(file, from) else { continue };
                    let before = at
                        .checked_sub(1)
                        .and_then(|before| text.lines().nth(before))
                        .unwrap_or_default()
                        .to_owned();
                    let mutation = Mutation {
                        file: file.clone(),
                        line: at + 1,
                        before,
                        from: from.to_owned(),
                        to,
                    };
                    let parity = self.parity(index, &mutation.applied(&self.texts[index]));
                    count += 1;
                    if !expected(deployer, &mutation, &parity) {
                        let said = parity.as_ref().map_or_else(ToString::to_string, lines);
                        unnamed.push(format!("{deployer}: {}\n{said}", mutation.shown()));
                    }
                }
            }
        }
        assert!(count > 0, "nothing was changed");
        assert!(
            unnamed.is_empty(),
            "{} of {count} changes are not named:\n{}",
            unnamed.len(),
            unnamed.concat()
        );
    }
}

/// Whether parity names the release, by a fact that starts with one of `facts`.
fn names(
    parity: &Result<ParityReport, ReadbackError>,
    release: Option<&str>,
    facts: &[&str],
) -> bool {
    let Ok(parity) = parity else { return false };
    let is_it = |fact: &str| facts.is_empty() || facts.iter().any(|start| fact.starts_with(start));
    parity.differences.iter().any(|difference| {
        release.is_none_or(|release| release == difference.release) && is_it(&difference.fact)
    })
}

/// Changes the value of a YAML line: inverts a boolean, lowers a number or a time, extends a text.
fn changed_value(line: &str) -> Option<String> {
    let body = line.trim_start();
    let (key, value) = match body.split_once(": ") {
        _ if body.starts_with('#') => return None,
        Some((key, value)) => (format!("{key}: "), value.trim()),
        None => ("- ".to_owned(), body.strip_prefix("- ")?),
    };
    let value = match value {
        ">-" | "|" | "" => return None,
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        number if number.parse::<u64>().is_ok() => "7".to_owned(),
        time if time.starts_with(|first: char| first.is_ascii_digit())
            && time.ends_with(['s', 'm', 'h']) =>
        {
            "7s".to_owned()
        }
        quoted if quoted.ends_with('"') => format!("{}x\"", &quoted[..quoted.len() - 1]),
        text => format!("{text}x"),
    };
    Some(format!("{}{key}{value}", &line[..line.len() - body.len()]))
}
