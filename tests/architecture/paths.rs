//! The paths that a source file names: `use` trees taken apart, `super` and `self` resolved, each with its line.

use super::words::{Word, words};

/// A path such as `crate::recipe::model::Recipe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its parts; paths into this crate begin with `crate`.
    pub(crate) parts: Vec<String>,
    /// The line of its last part.
    pub(crate) line: usize,
    /// In a `#[cfg(test)]` module.
    pub(crate) in_tests: bool,
}

/// The paths in a file whose module is `module` (the crate's root: no part).
pub(crate) fn paths(source: &str, module: &[String]) -> Vec<Named> {
    let words = words(source);
    let mut walk = Walk { words: &words, at: 0, module: module.to_vec(), inline: Vec::new(), depth: 0, found: Vec::new() };
    walk.file();
    walk.found
}

/// A module with its content in the same file.
struct Inline {
    /// The depth of braces outside it.
    depth: usize,
    tests: bool,
}

struct Walk<'a> {
    words: &'a [Word],
    at: usize,
    module: Vec<String>,
    inline: Vec<Inline>,
    depth: usize,
    found: Vec<Named>,
}

impl Walk<'_> {
    fn text(&self, ahead: usize) -> &str {
        self.words.get(self.at + ahead).map_or("", |word| &word.text)
    }

    fn file(&mut self) {
        let mut test_attribute = false;
        while self.at < self.words.len() {
            if (0..7).map(|ahead| self.text(ahead)).eq(["#", "[", "cfg", "(", "test", ")", "]"]) {
                test_attribute = true;
                self.at += 7;
                continue;
            }
            match self.text(0) {
                "mod" if self.text(2) == "{" => {
                    self.inline.push(Inline { depth: self.depth, tests: test_attribute });
                    self.module.push(self.text(1).to_owned());
                    self.depth += 1;
                    self.at += 3;
                }
                "{" => {
                    self.depth += 1;
                    self.at += 1;
                }
                "}" => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.inline.last().is_some_and(|inline| inline.depth == self.depth) {
                        self.inline.pop();
                        self.module.pop();
                    }
                    self.at += 1;
                }
                "use" => {
                    self.at += 1;
                    self.tree(&[]);
                }
                "::" => self.at += 1,
                word if self.text(1) == "::" && is_name(word) => self.tree(&[]),
                _ => self.at += 1,
            }
            if !matches!(self.text(0), "#" | "pub") {
                test_attribute = test_attribute && self.text(0) == "mod";
            }
        }
    }

    /// One path or `use` tree, below what is known already.
    fn tree(&mut self, above: &[String]) {
        let mut parts = above.to_vec();
        loop {
            match self.text(0) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(0), "}" | "") {
                        let before = self.at;
                        self.tree(&parts);
                        // What is no path (`,`) is passed over.
                        if self.at == before {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    parts.push("*".to_owned());
                    self.at += 1;
                    break;
                }
                word if is_name(word) => {
                    parts.push(word.to_owned());
                    self.at += 1;
                    if self.text(0) != "::" {
                        break;
                    }
                }
                _ => break,
            }
        }
        if parts.len() > above.len() {
            let line = self.words[self.at - 1].line;
            // `as name` names nothing else.
            if self.text(0) == "as" {
                self.at += 2;
            }
            let in_tests = self.inline.iter().any(|inline| inline.tests);
            self.found.push(Named { parts: self.resolve(parts), line, in_tests });
        }
    }

    fn resolve(&self, parts: Vec<String>) -> Vec<String> {
        let mut module = self.module.clone();
        let mut rest = parts.iter();
        match parts[0].as_str() {
            "gpu_rollout" => return std::iter::once("crate".to_owned()).chain(parts.into_iter().skip(1)).collect(),
            "self" | "super" => {}
            _ => return parts,
        }
        let mut below = Vec::new();
        for part in rest.by_ref() {
            match part.as_str() {
                "self" if below.is_empty() => {}
                "super" => {
                    module.pop();
                }
                _ => below.push(part.clone()),
            }
        }
        std::iter::once("crate".to_owned()).chain(module).chain(below).collect()
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|character: char| character.is_alphabetic() || character == '_')
}

#[test]
fn trees_are_taken_apart_and_super_is_resolved() {
    let source = "use super::super::{hook, cli::{self, printer as p}};\nfn f() { crate::a::b(); std::fs::read(x) }\n\
                  #[cfg(test)]\nmod tests { use super::*; use std::env; }\nmod other { use super::g; }";
    let module = ["recipe".to_owned(), "model".to_owned()];
    let found: Vec<(String, usize, bool)> =
        paths(source, &module).into_iter().map(|path| (path.parts.join("::"), path.line, path.in_tests)).collect();
    let expected = [
        ("crate::hook", 1, false),
        ("crate::cli::self", 1, false),
        ("crate::cli::printer", 1, false),
        ("crate::a::b", 2, false),
        ("std::fs::read", 2, false),
        ("crate::recipe::model::*", 4, true),
        ("std::env", 4, true),
        ("crate::recipe::model::g", 5, false),
    ];
    assert_eq!(found, expected.map(|(path, line, tests)| (path.to_owned(), line, tests)));
}
