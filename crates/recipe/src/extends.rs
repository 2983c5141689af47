//! `extends`: reads the requested recipe and all recipes that it extends, ancestors first.

use std::collections::BTreeSet;
use std::path::Path;

use super::aicr;
use super::merge::RecipeLayer;
use super::parse::parse;
use super::read::{ReadError, TextReader};
use super::recognize::looks_like_recipe;
use super::shape;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::{did_you_mean, nearest};
use diagnostics::source::{SourceId, SourceSpan, SourceText, SourceTexts};
use diagnostics::tree::YamlNode;

/// The longest chain of `extends`, far beyond what a reader can follow.
const MAX_DEPTH: usize = 16;
/// The largest number of recipes in a graph, far beyond what a reader can follow.
const MAX_LAYERS: usize = 64;

/// How a recipe is named on the command line and in `extends`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecipeReference {
    /// A recipe of the library.
    Library(String),
    /// A file.
    File(String),
    /// `-`
    StandardInput,
}

impl RecipeReference {
    /// Parses an argument: `-` is standard input, a text with a slash or the ending `.yaml` or
    /// `.yml` is a file, and any other text is a name in the library.
    pub(crate) fn from_argument(text: &str) -> Self {
        match text {
            "-" => Self::StandardInput,
            _ if is_file(text) => Self::File(normalized(text)),
            _ => Self::Library(text.to_owned()),
        }
    }

    /// Returns the name for messages.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Library(name) => format!("library:{name}"),
            Self::File(path) => path.clone(),
            Self::StandardInput => "standard input".to_owned(),
        }
    }

    /// Returns a name for a recipe without a name, derived from its file name.
    fn stem(&self) -> String {
        let Self::File(path) = self else { return "aicr".to_owned() };
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_ascii_lowercase();
        let plain: String = stem
            .chars()
            .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
            .take(63)
            .collect();
        let plain = plain.trim_matches('-');
        if plain.is_empty() { "aicr".to_owned() } else { plain.to_owned() }
    }

    /// Returns the directory that contains the files which the recipe and its parents may name;
    /// `None` if it can name no file.
    fn directory(&self) -> Option<String> {
        match self {
            Self::Library(_) => None,
            Self::File(path) => Some(match path.rsplit_once('/') {
                Some(("", _)) => "/".to_owned(),
                Some((directory, _)) => directory.to_owned(),
                None => ".".to_owned(),
            }),
            Self::StandardInput => Some(".".to_owned()),
        }
    }

    /// Resolves `text` in the `extends` of this recipe. Files are relative to its file.
    fn extended(&self, text: &str) -> Self {
        if !is_file(text) {
            return Self::Library(text.to_owned());
        }
        let directory = match self {
            Self::File(path) => path
                .rsplit_once('/')
                .map(|(directory, _)| if directory.is_empty() { "/" } else { directory }),
            Self::Library(_) | Self::StandardInput => None,
        };
        Self::File(match directory {
            Some(directory) if !text.starts_with('/') => normalized(&format!("{directory}/{text}")),
            Some(_) | None => normalized(text),
        })
    }
}

/// Returns the argument of [`load`](super::load::load) that names the file at `path`: with a slash if
/// the path alone would be a name in the library.
pub fn file_argument(path: &str) -> String {
    if is_file(path) { path.to_owned() } else { format!("./{path}") }
}

fn is_file(text: &str) -> bool {
    let ending = Path::new(text).extension();
    text.contains('/')
        || ending.is_some_and(|ending| {
            ending.eq_ignore_ascii_case("yaml") || ending.eq_ignore_ascii_case("yml")
        })
}

/// Normalizes a path (`a/./b/../c` → `a/c`), so that one file has one name and cycles are detected.
fn normalized(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    match (path.starts_with('/'), parts.join("/")) {
        (true, joined) => format!("/{joined}"),
        (false, joined) if joined.is_empty() => ".".to_owned(),
        (false, joined) => joined,
    }
}

/// A recipe of the graph with its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedLayer {
    /// The reference that names the recipe.
    pub(crate) reference: RecipeReference,
    /// The recipe's content.
    pub(crate) layer: RecipeLayer,
}

/// Reads the recipe and all recipes that it extends, each once. Adds findings to `findings`. A
/// finding about one recipe does not prevent reading the others.
pub(crate) fn read_all(
    top: &RecipeReference,
    options: &aicr::AicrOptions,
    reader: &mut dyn TextReader,
    sources: &mut SourceTexts,
    findings: &mut Vec<Diagnostic>,
) -> Vec<NamedLayer> {
    let mut graph = RecipeGraph {
        options,
        directory: top.directory(),
        reader,
        sources,
        findings,
        layers: Vec::new(),
        stack: Vec::new(),
    };
    graph.visit(top, None);
    if let Some(last) = graph.layers.last_mut() {
        last.layer.own = true;
    }
    graph.layers
}

struct RecipeGraph<'a> {
    options: &'a aicr::AicrOptions,
    /// The directory of the requested recipe, which contains every file that `extends` may name.
    directory: Option<String>,
    reader: &'a mut dyn TextReader,
    sources: &'a mut SourceTexts,
    findings: &'a mut Vec<Diagnostic>,
    layers: Vec<NamedLayer>,
    stack: Vec<RecipeReference>,
}

impl RecipeGraph<'_> {
    /// Returns the index of the recipe's layer; `None` if it cannot be read.
    fn visit(&mut self, reference: &RecipeReference, from: Option<SourceSpan>) -> Option<usize> {
        if let Some(known) = self.layers.iter().rposition(|layer| layer.reference == *reference) {
            return Some(known);
        }
        let is_extended = from.is_some();
        let text = self.refusal(reference).map_or_else(|| self.read(reference, is_extended), Err);
        let text = match text {
            Ok(text) => text,
            Err(diagnostic) => {
                self.findings.push(if let Some(origin) = from {
                    diagnostic.at(origin)
                } else {
                    diagnostic
                });
                return None;
            }
        };
        let is_recipe = looks_like_recipe(&text);
        let source = self.sources.add(SourceText { name: reference.label(), text });
        if !is_recipe {
            self.sources.hide(source);
        }
        let node = parse(self.sources, source)
            .map_err(|diagnostic| diagnostic.report(self.findings))
            .ok()?;
        if !shape::is_recipe(&node, self.findings) {
            return None;
        }
        if aicr::is_foreign(&node) {
            return self.foreign(reference, source, &node);
        }
        self.stack.push(reference.clone());
        let ancestors = self.visit_parents(reference, &node);
        self.stack.pop();
        shape::check_layer(&node, self.sources, self.findings);
        self.layers.push(NamedLayer {
            reference: reference.clone(),
            layer: RecipeLayer { node, ancestors, own: false },
        });
        Some(self.layers.len() - 1)
    }

    /// Reads a recipe of AICR, which extends nothing and becomes several layers. Returns the index
    /// of the last one.
    fn foreign(
        &mut self,
        reference: &RecipeReference,
        source: SourceId,
        node: &YamlNode,
    ) -> Option<usize> {
        let layers = aicr::layers(
            (source, node),
            &reference.stem(),
            self.options,
            self.reader,
            self.sources,
            self.findings,
        )?;
        let first = self.layers.len();
        for (index, node) in layers.into_iter().enumerate() {
            let ancestors = (first..first + index).collect();
            self.layers.push(NamedLayer {
                reference: reference.clone(),
                layer: RecipeLayer { node, ancestors, own: false },
            });
        }
        let last = self.layers.len() - 1;
        shape::check_layer(&self.layers[last].layer.node, self.sources, self.findings);
        Some(last)
    }

    fn visit_parents(&mut self, reference: &RecipeReference, node: &YamlNode) -> BTreeSet<usize> {
        let mut ancestors = BTreeSet::new();
        let parents = node.get("extends").map_or(&[][..], YamlNode::items);
        for (index, parent) in parents.iter().enumerate() {
            let Some(text) = parent.text() else { continue };
            if parents[..index].iter().any(|earlier| earlier.text() == Some(text)) {
                Diagnostic::error(format!("`{text}` is extended twice"))
                    .at(parent.origin)
                    .hint("keep one of them")
                    .report(self.findings);
                continue;
            }
            if let Some(parent) = self.visit(&reference.extended(text), Some(parent.origin)) {
                ancestors.insert(parent);
                ancestors.extend(self.layers[parent].layer.ancestors.iter().copied());
            }
        }
        ancestors
    }

    fn refusal(&self, reference: &RecipeReference) -> Option<Diagnostic> {
        if let Some(start) = self.stack.iter().position(|open| open == reference) {
            let mut circle: Vec<String> =
                self.stack[start..].iter().map(RecipeReference::label).collect();
            circle.push(reference.label());
            return Some(
                Diagnostic::error(format!("`extends` has a cycle: {}", circle.join(" → ")))
                    .hint("remove one of these `extends`"),
            );
        }
        if self.stack.len() >= MAX_DEPTH {
            return Some(
                Diagnostic::error(format!(
                    "`extends` is nested more than {MAX_DEPTH} recipes deep"
                ))
                .hint("reduce the number of nested recipes"),
            );
        }
        if self.layers.len() + self.stack.len() >= MAX_LAYERS {
            return Some(
                Diagnostic::error(format!("`extends` leads to more than {MAX_LAYERS} recipes"))
                    .hint("extend fewer recipes"),
            );
        }
        None
    }

    fn read(
        &mut self,
        reference: &RecipeReference,
        is_extended: bool,
    ) -> Result<String, Diagnostic> {
        match reference {
            RecipeReference::Library(name) => {
                catalog::recipe(name).map(str::to_owned).ok_or_else(|| {
                    // A recipe may be from an untrusted source: the error about one that it
                    // extends does not reveal which directories exist.
                    if !is_extended && self.reader.is_directory(name) {
                        directory_instead(name)
                    } else {
                        unknown_name(name)
                    }
                })
            }
            RecipeReference::File(path) if is_extended => self.read_extended(path),
            RecipeReference::File(path) => {
                self.reader.file(path).map_err(|error| unreadable(path, &error))
            }
            RecipeReference::StandardInput => {
                self.reader.standard_input().map_err(|error| unreadable("standard input", &error))
            }
        }
    }

    /// Reads a file that `extends` names. The recipe may be from an untrusted source, so the file
    /// must be below an allowed directory, and must be a recipe.
    fn read_extended(&mut self, path: &str) -> Result<String, Diagnostic> {
        let directory = self.directory.as_deref().unwrap_or(".");
        let text = match self.reader.file_below(directory, path) {
            Ok(text) => text,
            Err(ReadError::Outside) => {
                return Err(Diagnostic::error(format!(
                    "`{path}` is outside the directory of the recipe, `{directory}`"
                ))
                .hint("move the file, or allow its directory with `--allow-extends DIR`"));
            }
            Err(error) => return Err(unreadable(path, &error)),
        };
        if looks_like_recipe(&text) {
            return Ok(text);
        }
        Err(Diagnostic::error(format!("`{path}` is not a recipe"))
            .hint("a recipe has the lines `apiVersion: gpu-rollout.dev/v1` and `kind: Recipe`"))
    }
}

fn unknown_name(name: &str) -> Diagnostic {
    let hint = did_you_mean(name, catalog::recipe_names()).unwrap_or_else(|| {
        format!("the library has: {}", catalog::recipe_names().collect::<Vec<_>>().join(", "))
    });
    let file = file_argument(name);
    let of_file = if Path::new(name).extension().is_some() {
        format!("to name a file, write a slash: `{file}`")
    } else {
        format!(
            "to name a file, write its path with a slash, or its extension: `{file}`, `{name}.yaml`"
        )
    };
    Diagnostic::error(format!("the library has no recipe `{name}`")).hint(hint).hint(of_file)
}

fn directory_instead(name: &str) -> Diagnostic {
    Diagnostic::error(format!("`{name}` is a directory"))
        .hint(format!("name its files: `{name}/*.yaml`"))
}

fn unreadable(path: &str, error: &ReadError) -> Diagnostic {
    let diagnostic = Diagnostic::error(format!("cannot read `{path}`: {error}"))
        .maybe_hint(error.hint().map(str::to_owned));
    let stem = path
        .rsplit('/')
        .next()
        .map_or(path, |file| file.trim_end_matches(".yaml").trim_end_matches(".yml"));
    match (error, nearest(stem, catalog::recipe_names())) {
        (ReadError::Missing, Some(near)) => diagnostic
            .hint(format!("the library has `{near}`; names of the library have no ending")),
        (ReadError::Missing, None) => {
            diagnostic.hint("`gpu-rollout recipe list` shows the recipes of the library")
        }
        (
            ReadError::Directory
            | ReadError::Outside
            | ReadError::TooLarge
            | ReadError::NotUtf8 { .. }
            | ReadError::Utf16
            | ReadError::Other(_),
            _,
        ) => diagnostic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_told_from_a_name() {
        assert_eq!(RecipeReference::from_argument("-"), RecipeReference::StandardInput);
        assert_eq!(RecipeReference::from_argument("base"), RecipeReference::Library("base".into()));
        assert_eq!(
            RecipeReference::from_argument("a/../base"),
            RecipeReference::File("base".into())
        );
        assert_eq!(
            RecipeReference::from_argument("base.yaml"),
            RecipeReference::File("base.yaml".into())
        );
        let child = RecipeReference::File("team/child.yaml".into());
        assert_eq!(
            child.extended("../shared/base.yml"),
            RecipeReference::File("shared/base.yml".into())
        );
        assert_eq!(child.extended("base"), RecipeReference::Library("base".into()));
        assert_eq!(
            RecipeReference::File("/child.yaml".into()).extended("./base.yml"),
            RecipeReference::File("/base.yml".into())
        );
        assert_eq!(
            RecipeReference::StandardInput.extended("../up.yml"),
            RecipeReference::File("../up.yml".into())
        );
    }

    #[test]
    fn argument_of_every_file_names_the_file() {
        for (path, argument) in [
            ("mine.yaml", "mine.yaml"),
            ("mine.txt", "./mine.txt"),
            ("mine", "./mine"),
            ("team/mine.txt", "team/mine.txt"),
        ] {
            assert_eq!(file_argument(path), argument);
            assert_eq!(
                RecipeReference::from_argument(argument),
                RecipeReference::File(path.to_owned())
            );
        }
    }
}
