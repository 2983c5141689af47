//! The log lines that are kept of a test that did not pass.

use super::MOST_LOG_LINES;
use crate::secret_patterns::redact;
use crate::visible::is_hidden;

/// The most characters of all kept lines together: they are in an annotation of the node.
pub const MOST_LOG_CHARACTERS: usize = 2_000;
/// How many bytes at the end of a log are looked at, so that the time for a hostile log is bounded.
const MOST_BYTES: usize = 64 * 1024;
/// The character that starts a sequence of terminal commands, such as a color.
const ESCAPE: char = '\u{1b}';

/// Returns at most the last `lines` lines of a log, without secrets, blank lines, and characters
/// that a terminal does not show. All of them have at most [`MOST_LOG_CHARACTERS`] characters: the
/// end is kept. Pass more of the log than these lines: a secret of several lines is recognized more
/// reliably as a whole.
pub fn log_excerpt(text: &str, lines: u32) -> Vec<String> {
    let (clean, _) = redact(&shown(end_of(text)));
    let most = usize::try_from(lines.min(MOST_LOG_LINES)).unwrap_or_default();
    let mut left = MOST_LOG_CHARACTERS;
    let mut kept = Vec::new();
    let written = clean.lines().map(str::trim_end).filter(|line| !line.is_empty());
    for line in written.rev().take(most) {
        let length = line.chars().count();
        if left == 0 {
            break;
        }
        kept.push(line.chars().skip(length.saturating_sub(left)).collect());
        left = left.saturating_sub(length);
    }
    kept.reverse();
    kept
}

/// Returns the end of a text, at most [`MOST_BYTES`] bytes.
fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MOST_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// Returns a text as a terminal shows it: without commands to the terminal and hidden characters.
/// A carriage return ends a line, as in a progress bar.
fn shown(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\r' => plain.push('\n'),
            '\t' => plain.push(' '),
            ESCAPE => {
                if characters.next_if_eq(&'[').is_some() {
                    // Parameters, and the letter that ends the sequence (ECMA-48, 5.4).
                    while characters.next_if(|next| (' '..='?').contains(next)).is_some() {}
                    characters.next_if(|next| ('@'..='~').contains(next));
                }
            }
            hidden if is_hidden(hidden) => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_kept_in_order() {
        let log = "one\ntwo\n\n  three  \n";
        for (lines, expected) in [
            (0, &[][..]),
            (1, &["  three"]),
            (2, &["two", "  three"]),
            (50, &["one", "two", "  three"]),
        ] {
            assert_eq!(log_excerpt(log, lines), expected, "{lines}");
        }
        let numbers: Vec<String> = (0..200).map(|number: u32| number.to_string()).collect();
        let kept = log_excerpt(&numbers.join("\n"), 1_000);
        assert_eq!((kept.len(), kept[0].as_str(), kept[49].as_str()), (50, "150", "199"));
    }

    #[test]
    fn log_end_is_kept_within_limit() {
        let log = format!("first\n{}\n{}end", "é".repeat(1_500), "x".repeat(900));
        let kept = log_excerpt(&log, 50);
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept[0].chars().all(|character| character == 'é'));
        let characters: usize = kept.iter().map(|line| line.chars().count()).sum();
        assert_eq!(characters, MOST_LOG_CHARACTERS);
        assert!(kept[1].ends_with("xend"));
        let endless = "x".repeat(3 * MOST_BYTES);
        assert_eq!(log_excerpt(&endless, 1)[0].len(), MOST_LOG_CHARACTERS);
        assert_eq!(log_excerpt(&"é".repeat(MOST_BYTES), 1)[0].chars().count(), MOST_LOG_CHARACTERS);
    }

    #[test]
    fn terminal_commands_and_hidden_characters_are_removed() {
        let log = "\u{1b}[31;1mred\u{1b}[0m\u{7}\u{202e} a\tb\r\n10%\r20%\r\n\u{1b}";
        assert_eq!(log_excerpt(log, 50), ["red a b", "10%", "20%"]);
    }

    #[test]
    fn secrets_are_removed_before_lines_are_cut() {
        let key = "MIIEowIBAAKCAQEA7Vb1Q2xhZ2hYc0pXb2RkZ2VyRmlzaEFuZENoaXBzVG9kYXk0";
        let body = format!("{key}\n").repeat(6);
        let log = format!(
            "login with password=hunter2hunter2\n-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n2 of 8 GPUs\n"
        );
        for lines in [2, 3, 50] {
            let kept = log_excerpt(&log, lines).join("\n");
            assert!(kept.ends_with("2 of 8 GPUs"), "{kept}");
            assert!(!kept.contains("hunter2") && !kept.contains(key), "{kept}");
        }
    }
}
