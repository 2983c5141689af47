//! The form in which findings show a text: without secrets, and without characters on which a
//! terminal acts. Each byte keeps its place, so that spans fit both forms.

use contract::secret_patterns::find_secrets;
use contract::visible::is_hidden;

/// Returns the form of `text` that excerpts show.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for secret in find_secrets(text) {
        push_visible(&mut shown, &text[end..secret.start]);
        for byte in text[secret.clone()].bytes() {
            shown.push(if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { '*' });
        }
        end = secret.end;
    }
    push_visible(&mut shown, &text[end..]);
    shown
}

/// Appends a text. Replaces each hidden character of several bytes; the renderer itself replaces
/// those of one byte.
fn push_visible(shown: &mut String, text: &str) {
    if text.is_ascii() {
        shown.push_str(text);
        return;
    }
    for character in text.chars() {
        match (is_hidden(character), character.len_utf8()) {
            (true, 2) => shown.push('¤'),
            (true, 3) => shown.push('\u{fffd}'),
            (true, 4) => shown.push_str("\u{fffd}?"),
            _ => shown.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_text_keeps_places_and_no_secret() {
        let text = "a\u{9b}: \u{202e}b\u{e0041}\nc: {password: hunter2-hunter2, d: ü}\n";
        let shown = shown(text);
        assert_eq!(shown.len(), text.len());
        assert_eq!(shown.find("d: ü"), text.find("d: ü"));
        assert!(!shown.contains("hunter2") && !shown.contains(['\u{9b}', '\u{202e}']), "{shown}");
    }
}
