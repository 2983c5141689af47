//! Writes all YAML of the program. Every parser of bundles reads the output the same:
//! sigs.k8s.io/yaml (Helm, Flux, Argo CD, Kubernetes), yaml.v3 (helmfile, Kustomize) and parsers of
//! YAML 1.2. A string is written plain or as a literal block only if it is unambiguous. Any other
//! string is quoted, with escapes for characters that any of these parsers changes or refuses.
//!
//! No output contains the bytes of `REFERENCE`, not even in a key.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// Maximum length of a plain key: parsers search for its colon on one line, within 1024 characters.
const LONGEST_KEY: usize = 1000;
/// The bytes for which helmfile searches a values file. If it finds them, it replaces every text
/// that is a reference, such as `ref+exec://…`, with what the reference names: a secret, a file, or
/// the output of a command. No other deployer does that. It has a plus sign, which [`is_plain`] and
/// [`quoted`] search for first.
const REFERENCE: &str = "ref+";
/// Words that a version of YAML does not read as a string, in lower case.
const WORDS: [&str; 15] = [
    "y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity", ".nan",
    ".inf", "~",
];

/// Writes one document in block style, with a line break at its end.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => entries(&mut text, map, 0),
        Value::Array(items) if !items.is_empty() => list(&mut text, items, 0),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            text.push_str(&scalar(value));
        }
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Writes a value on one line: strings are quoted, maps and lists have brackets.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| match quoted(key) {
                key if key.len() > LONGEST_KEY => format!("? {key} : {}", inline(value)),
                key => format!("{key}: {}", inline(value)),
            };
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(value) => number(value),
    }
}

/// Writes a string in double quotes, on one line.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // The end of `REFERENCE`: every parser reads the same text, and no program finds it.
            '+' if quoted.ends_with("ref") => quoted.push_str("\\u002b"),
            _ if is_visible(character) => quoted.push(character),
            _ => {
                // Writing into a String cannot fail.
                let code = u32::from(character);
                let _ = if code <= 0xffff {
                    write!(quoted, "\\u{code:04x}")
                } else {
                    write!(quoted, "\\U{code:08x}")
                };
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Returns whether a quoted string contains the character without an escape. Escaped are control
/// characters, all spaces except U+0020 (Go trims some of them), line breaks of YAML 1.1,
/// characters that change the text direction or are invisible, and noncharacters.
fn is_visible(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{fff0}'..='\u{ffff}'
        | '\u{1fffe}'..='\u{1ffff}'
        | '\u{e0000}'..='\u{10ffff}' => false,
        _ => !character.is_control() && !character.is_whitespace(),
    }
}

/// Appends the entries of a map, the first of them on the last line of `text`.
fn entries(text: &mut String, map: &Map<String, Value>, indent: usize) {
    for (index, (name, value)) in map.iter().enumerate() {
        if index > 0 {
            pad(text, indent);
        }
        let name = if is_plain(name) { name.clone() } else { quoted(name) };
        if name.len() > LONGEST_KEY {
            text.extend(["? ", &name, "\n"]);
            pad(text, indent);
        } else {
            text.push_str(&name);
        }
        text.push(':');
        nested(text, value, indent, true);
    }
}

/// Appends the items of a list, the first of them on the last line of `text`.
fn list(text: &mut String, items: &[Value], indent: usize) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            pad(text, indent);
        }
        text.push('-');
        nested(text, item, indent, false);
    }
}

/// Appends the value after a colon or a dash. Maps and lists start on a new line or on the line of
/// the dash.
fn nested(text: &mut String, value: &Value, indent: usize, own_line: bool) {
    let below = indent + 2;
    let open = |text: &mut String| {
        text.push(if own_line { '\n' } else { ' ' });
        pad(text, if own_line { below } else { 0 });
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            open(text);
            entries(text, map, below);
        }
        Value::Array(items) if !items.is_empty() => {
            open(text);
            list(text, items, below);
        }
        Value::String(content) if is_block(content) => {
            text.push(' ');
            block(text, content, below);
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {
            text.extend([" ", &scalar(value), "\n"]);
        }
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => inline(value),
    }
}

/// Writes a number. With an exponent, it has a dot and a sign, because some parsers do not read
/// `1e16` as a number.
fn number(number: &Number) -> String {
    let text = number.to_string();
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return text };
    let dot = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{mantissa}{dot}e{sign}{exponent}")
}

/// Appends a literal block with unchanged lines.
fn block(text: &mut String, content: &str, indent: usize) {
    text.push_str(if content.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in content.lines() {
        if !line.is_empty() {
            pad(text, indent);
            text.push_str(line);
        }
        text.push('\n');
    }
}

/// Returns whether a string of several lines can be a literal block. The first line determines the
/// indentation, trailing line breaks determine the end of the block, and editors may remove
/// invisible white space. Strings that are special in any of these respects are quoted.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with('\n')
        && body.split('\n').all(|line| !line.ends_with([' ', '\t']) && !line.starts_with('\t'))
        && body.chars().all(|character| matches!(character, '\n' | '\t') || is_visible(character))
        && !text.contains(REFERENCE)
}

/// Returns whether a string can be written without quotes.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let starts = first.is_ascii_alphanumeric() || "_/.+(".contains(first);
    let inner =
        text.chars().all(|character| matches!(character, ' '..='~')) && !text.ends_with([' ', ':']);
    // Keys and words are short, and most have no plus sign: searching them for texts takes longer.
    let has_mark = text.as_bytes().windows(2).any(|pair| matches!(pair, b": " | b" #"))
        || text.contains('+') && text.contains(REFERENCE);
    starts && inner && !has_mark && !is_other_type(text)
}

/// Returns whether a parser might read a plain string as another type: it is one of the words, or
/// consists only of characters of numbers and dates.
fn is_other_type(text: &str) -> bool {
    let word = text.trim_start_matches(['+', '-']);
    if WORDS.iter().any(|known| known.eq_ignore_ascii_case(word)) {
        return true;
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    let is_hexadecimal = lower.contains("0x");
    lower.chars().all(|character| {
        "0123456789xobe_.:+-tz ".contains(character)
            || is_hexadecimal && character.is_ascii_hexdigit()
    })
}

#[cfg(test)]
mod tests;
