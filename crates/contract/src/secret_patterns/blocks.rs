//! Secrets of several lines: keys in PEM and similar forms, also if their start or end is missing,
//! and the data of Kubernetes Secrets.

use std::ops::Range;

use super::random::is_dense;
use super::window;

/// The shortest line in the middle of a key in base64.
const SHORTEST_LINE: usize = 40;
/// The longest label of a block.
const LONGEST_LABEL: usize = 64;
/// The longest block in bytes. A key of 16,384 bits has 13,000.
const LONGEST_BLOCK: usize = 16 * 1024;

/// Adds the ranges of all blocks in `text`.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    keys_with_start(text, found);
    let lines = lines(text);
    long_base64(text, &lines, found);
    // Few texts contain these words, and searching each line of the others costs time.
    if text.contains("-- END ") || text.contains("--END ") {
        keys_with_end(text, &lines, found);
    }
    if text.contains("Private-Lines:") {
        putty_keys(text, &lines, found);
    }
    if text.contains("Secret") {
        secret_manifests(text, &lines, found);
    }
}

/// Returns the range of each line, without its end.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    text.split('\n')
        .map(|line| {
            let range = start..start + line.len();
            start = range.end + 1;
            range
        })
        .collect()
}

/// Returns whether the label of a PEM block is that of a secret.
fn is_secret_label(label: &str) -> bool {
    let upper = label.to_ascii_uppercase();
    ["PRIVATE KEY", "STATIC KEY", "PGP MESSAGE", "SECRET KEY"]
        .iter()
        .any(|secret| upper.contains(secret))
}

/// Finds blocks that have their first line: until their last one, or as long as the text looks
/// like base64.
fn keys_with_start(text: &str, found: &mut Vec<Range<usize>>) {
    let mut done = 0;
    for (at, begin) in text.match_indices("BEGIN ") {
        let dashes = text[..at].trim_end_matches(' ');
        let label = at + begin.len();
        let Some(length) = window(text, label, LONGEST_LABEL).find("--") else { continue };
        let name = text[label..label + length].trim_end();
        if at < done || !dashes.ends_with("--") || name.contains('\n') || !is_secret_label(name) {
            continue;
        }
        let body = label + length + run_of(&text[label + length..], |byte| byte == b'-');
        let end = end_of_block(text, body, name)
            .unwrap_or_else(|| body + truncated_body(window(text, body, LONGEST_BLOCK)));
        found.push(dashes.trim_end_matches('-').len()..end);
        done = end;
    }
}

fn run_of(text: &str, allowed: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| allowed(*byte)).count()
}

/// Returns the end of the last line of the block whose body starts at `body`, unless another block
/// starts before.
fn end_of_block(text: &str, body: usize, name: &str) -> Option<usize> {
    let last = format!("END {name}");
    let at = body + window(text, body, LONGEST_BLOCK).find(&last)?;
    let end = at + last.len();
    let is_one = !text[body..at].contains("BEGIN ");
    is_one.then(|| end + run_of(&text[end..], |byte| b"- ".contains(&byte)))
}

/// Returns the length of the body of a block without a last line.
fn truncated_body(text: &str) -> usize {
    let mut length = 0;
    let mut follows_header = false;
    for (number, line) in text.split('\n').enumerate() {
        let content = line.trim();
        let is_header = number > 0
            && length < 400
            && content.contains(": ")
            && content.len() < 80
            && ["Proc-Type", "DEK-Info", "Comment", "Version"]
                .iter()
                .any(|name| content.starts_with(name));
        // An empty line separates headers from the body.
        let is_empty = content.is_empty() && (number <= 1 || follows_header);
        let body = body_line(content);
        if number > 0 && !is_header && !is_empty && body.is_none() {
            break;
        }
        follows_header = is_header;
        if number == 0 {
            // On the line of the label, the rest may be base64 with escaped line breaks.
            length +=
                run_of(line, |byte| byte.is_ascii_alphanumeric() || b"+/=\\-,: \r".contains(&byte));
            if length < line.len() {
                return length;
            }
        } else {
            length += line.len();
        }
        length += 1;
        if number > 0 && body == Some(BodyLine::Last) {
            break;
        }
    }
    text[..length.min(text.len())].trim_end().len()
}

/// A line of a key's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyLine {
    /// A line of full length, perhaps after the prefix of a log.
    Full,
    /// The last line.
    Last,
}

/// Returns what a line of base64 is in the body of a key; `None` for another line.
fn body_line(line: &str) -> Option<BodyLine> {
    let last = line.rsplit([' ', '\t', '"']).next().unwrap_or(line);
    let digits = last.trim_end_matches('=');
    let is_base64 =
        digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
    // A digest has no capitals.
    let is_mixed = digits.bytes().any(|byte| byte.is_ascii_uppercase());
    if !is_base64 || last.is_empty() {
        None
    } else if last.len() >= SHORTEST_LINE && is_mixed {
        Some(BodyLine::Full)
    } else {
        (last.len() == line.len() && last.len().is_multiple_of(4)).then_some(BodyLine::Last)
    }
}

/// Finds blocks that have only their last lines.
fn keys_with_end(text: &str, lines: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    for (number, line) in lines.iter().enumerate() {
        let content = &text[line.clone()];
        let Some(end) = content.find("--END ").or_else(|| content.find("-- END ")) else {
            continue;
        };
        if !is_secret_label(&content[end..]) {
            continue;
        }
        let before = &content[..end];
        // A block on one line has its start there too.
        if before.contains("BEGIN ") {
            continue;
        }
        let own = before.rfind([' ', '"']).map_or(0, |space| space + 1);
        found.push(line.start + own..line.end);
        let kind = |line: &Range<usize>| body_line(text[line.clone()].trim());
        let mut above = lines[..number].iter().rev().peekable();
        found.extend(above.next_if(|line| kind(line) == Some(BodyLine::Last)).cloned());
        found.extend(above.take_while(|line| kind(line) == Some(BodyLine::Full)).cloned());
    }
}

/// Finds three or more successive lines of base64: the middle of a key.
fn long_base64(text: &str, lines: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    let is_long = |line: &Range<usize>| {
        if line.len() < SHORTEST_LINE {
            return false;
        }
        let content = text[line.clone()].trim();
        let last = content.rsplit([' ', '\t', '"']).next().unwrap_or(content);
        body_line(content) == Some(BodyLine::Full) && is_dense(last)
    };
    for group in lines.chunk_by(|first, second| is_long(first) && is_long(second)) {
        if group.len() >= 3 {
            found.extend(group.iter().cloned());
        }
    }
}

/// Finds the private lines of PuTTY's key files.
fn putty_keys(text: &str, lines: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    // Each line is found once.
    let mut done = 0;
    for (number, line) in lines.iter().enumerate() {
        let Some(count) = text[line.clone()].trim().strip_prefix("Private-Lines:") else {
            continue;
        };
        let count: usize = count.trim().parse().unwrap_or_default();
        let end = (number + 1 + count.min(200)).min(lines.len());
        found.extend(lines[..end].iter().skip(done.max(number + 1)).cloned());
        done = done.max(end);
    }
}

/// Finds the data of Secrets: in YAML the lines below `data:` and `stringData:`, in JSON the values
/// of these maps.
fn secret_manifests(text: &str, lines: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    for document in lines.split(|line| text[line.clone()].trim_end() == "---") {
        let is_secret = |line: &&Range<usize>| {
            let content = text[(*line).clone()].trim_start_matches([' ', '-']).trim_end();
            content == "kind: Secret" || content == "kind: \"Secret\""
        };
        if document.iter().any(|line| is_secret(&line)) {
            data_lines(text, document, found);
        }
    }
    for line in lines {
        let content = &text[line.clone()];
        if !content.contains("\"kind\":\"Secret\"") && !content.contains("\"kind\": \"Secret\"") {
            continue;
        }
        for key in ["\"data\":", "\"stringData\":"] {
            let maps = content.match_indices(key).filter_map(|(at, _)| {
                let behind = &content[at + key.len()..];
                let open = content.len() - behind.trim_start().len();
                let is_near = content[open..].starts_with('{');
                let map = window(content, open, LONGEST_BLOCK);
                let end = open + map.find('}').unwrap_or(map.len());
                (is_near && end > open + 1).then_some(line.start + open + 1..line.start + end)
            });
            found.extend(maps);
        }
    }
}

/// Adds the values below `data:` and `stringData:`.
fn data_lines(text: &str, document: &[Range<usize>], found: &mut Vec<Range<usize>>) {
    let mut inside: Option<usize> = None;
    for line in document {
        let content = &text[line.clone()];
        let indent = content.len() - content.trim_start().len();
        if inside.is_some_and(|map| indent <= map && !content.trim().is_empty()) {
            inside = None;
        }
        if inside.is_some() {
            // The key shows which text is missing; it has no spaces.
            let value = content.find(": ").map_or(indent, |colon| colon + 2);
            if value < content.len() {
                found.push(line.start + value..line.end);
            }
        } else if ["data:", "stringData:"].contains(&content.trim()) {
            inside = Some(indent);
        }
    }
}
