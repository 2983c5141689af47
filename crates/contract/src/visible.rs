//! Makes characters visible that control a terminal or change how a text looks. Names and messages
//! from a cluster, a bundle or a recipe may contain them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns whether a terminal or an editor acts on the character instead of showing it: control
/// characters, line breaks of Unicode, and characters that reverse or hide text.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Returns a text with every hidden character escaped, such as `\u{1b}`. Line breaks and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'))
}

/// Returns a text as one line: as [`text`] does, with line breaks and tabs escaped too.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// Returns a JSON document with every hidden character inside its strings escaped as JSON escapes
/// it. The document is not changed otherwise.
pub fn json(document: &str) -> Cow<'_, str> {
    // Outside strings, JSON allows only these.
    let must_be_escaped =
        |character: char| is_hidden(character) && !matches!(character, '\n' | '\t' | '\r');
    if !document.contains(must_be_escaped) {
        return Cow::Borrowed(document);
    }
    let mut safe = String::with_capacity(document.len());
    for character in document.chars() {
        if must_be_escaped(character) {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

fn escaped(text: &str, must_be_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&must_be_escaped) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if must_be_escaped(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_escaped_others_stay() {
        for (written, shown) in [
            ("node \u{1b}[31mgpu-0\u{7}", r"node \u{1b}[31mgpu-0\u{7}"),
            ("a\rb\u{9b}2J\u{7f}", r"a\rb\u{9b}2J\u{7f}"),
            ("\u{202e}live\u{2066}\u{e0041}", r"\u{202e}live\u{2066}\u{e0041}"),
            ("a\n\tb → ü 中 🦀", "a\n\tb → ü 中 🦀"),
        ] {
            assert_eq!(text(written), shown);
        }
        assert_eq!(line("a\n\tb"), r"a\n\tb");
    }

    #[test]
    fn escaped_json_has_same_content() {
        let value = serde_json::json!({"a\u{85}": ["\u{1b}\u{9b}\u{202e}\u{e0041}\n", "ü"]});
        let written = serde_json::to_string_pretty(&value).unwrap_or_default();
        let safe = json(&written);
        assert!(!safe.contains(|one| is_hidden(one) && one != '\n'), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).ok(), Some(value));
    }
}
