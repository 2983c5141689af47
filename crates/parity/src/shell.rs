//! Parses shell scripts, as far as reading them back needs: words, functions, and lines outside
//! functions.

use std::collections::BTreeMap;

/// A parsed script.
#[derive(Debug, Default)]
pub(crate) struct ShellScript {
    /// The words of each function's body, line by line.
    functions: BTreeMap<String, Vec<Vec<String>>>,
    /// The words of each line outside functions, without empty lines.
    pub(crate) lines: Vec<Vec<String>>,
}

impl ShellScript {
    /// Parses `text`. A function starts with `name() {` and ends with `}` at the start of a line.
    pub(crate) fn new(text: &str) -> Self {
        let mut script = Self::default();
        let mut inside: Option<String> = None;
        for line in text.lines() {
            let words = words(line);
            match &inside {
                Some(_) if line.starts_with('}') => inside = None,
                Some(name) => script.functions.entry(name.clone()).or_default().push(words),
                None => match line.strip_suffix("() {") {
                    Some(name) => {
                        script.functions.insert(name.to_owned(), Vec::new());
                        inside = Some(name.to_owned());
                    }
                    None if words.is_empty() => {}
                    None => script.lines.push(words),
                },
            }
        }
        script
    }

    /// Whether the script has the function `name`.
    pub(crate) fn is_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Returns the lines of a function.
    pub(crate) fn function(&self, name: &str) -> &[Vec<String>] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the lines of a function. After each line that calls another function, it inserts
    /// that function's lines.
    pub(crate) fn reached(&self, function: &str) -> Vec<&[String]> {
        let mut lines = Vec::new();
        self.reach(function, &mut Vec::new(), &mut lines);
        lines
    }

    fn reach<'a>(
        &'a self,
        function: &str,
        callers: &mut Vec<String>,
        lines: &mut Vec<&'a [String]>,
    ) {
        // Reads a recursive function only once.
        if callers.iter().any(|caller| caller == function) {
            return;
        }
        callers.push(function.to_owned());
        for line in self.functions.get(function).into_iter().flatten() {
            lines.push(line);
            if let Some(called) = line.first().filter(|word| self.functions.contains_key(*word)) {
                self.reach(called, callers, lines);
            }
        }
        callers.pop();
    }
}

/// Splits a line into words like a POSIX shell. Removes quotes, keeps variables unexpanded, and
/// drops comments.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut started, mut quote) = (String::new(), false, None);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\'' | '"', None) => (quote, started) = (Some(character), true),
            (character, Some(open)) if character == open => quote = None,
            ('\\', None | Some('"')) => word.extend(characters.next()),
            (' ' | '\t', None) => {
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            ('#', None) if !started && word.is_empty() => break,
            (other, _) => word.push(other),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        assert_eq!(words("a 'it'\\''s here' \"$b c\" '' # d"), ["a", "it's here", "$b c", ""]);
        assert_eq!(words("  x#y \"it's\"\t${1#*-} "), ["x#y", "it's", "${1#*-}"]);
    }

    #[test]
    fn functions_are_followed() {
        let script = ShellScript::new("set -eu\na() {\n  b 1\n  d\n}\nb() {\n  a\n  c\n}\na 2\n");
        assert_eq!(script.lines, [vec!["set", "-eu"], vec!["a", "2"]]);
        assert_eq!(script.reached("a"), [&["b", "1"][..], &["a"], &["c"], &["d"]]);
        assert!(script.reached("none").is_empty());
    }
}
