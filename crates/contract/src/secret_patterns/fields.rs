//! Secrets that are recognized by the name before them: `key=value` in all its forms, options of
//! commands, headers, and pairs of name and value.

use std::ops::Range;

use super::names::{NameClass, class};
use super::random::{is_dense, is_object_name, is_path, is_uuid, looks_random};
use super::{window, window_before};

mod value;

use value::{Evidence, Extent, FoundValue, NamePlace, Separator, extended, separator, value};

/// How far the value of a variable may be from its name.
const NEAR: usize = 200;
/// How far the longest value without quotes may reach.
const FAR: usize = 2048;

/// Adds the ranges of all values whose names say that they are secrets.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    // The end of the name of a secret variable, whose value follows under another key.
    let mut variable: Option<usize> = None;
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let end = at + bytes[at..].iter().take_while(|byte| is_name(**byte)).count();
        let name = FieldName::new(text, at..end);
        let next = name.secret(&mut variable).inspect(|secret| found.push(secret.clone()));
        // Names inside a secret are not names.
        at = next.map_or(end, |secret| secret.end.max(end));
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// A word that may be the name of a secret.
struct FieldName<'a> {
    text: &'a str,
    range: Range<usize>,
    /// The word without leading dashes and trailing dots.
    word: &'a str,
}

impl<'a> FieldName<'a> {
    fn new(text: &'a str, range: Range<usize>) -> Self {
        let word = text[range.clone()].trim_start_matches('-').trim_end_matches(['.', '-']);
        Self { text, range, word }
    }

    /// Returns what is before the word on its line, as far as it matters.
    fn before(&self) -> &'a str {
        let before = window_before(self.text, self.range.start, NEAR);
        before.rsplit('\n').next().unwrap_or(before)
    }

    /// Returns the range of the secret that the word names.
    fn secret(&self, variable: &mut Option<usize>) -> Option<Range<usize>> {
        let word = |range| extended(self.text, range, Extent::Word);
        if let Some(value) = self.of_variable(variable) {
            return Some(word(value));
        }
        if let Some(value) = self.of_scheme().or_else(|| self.of_short_option()) {
            return Some(word(value));
        }
        let class = class(self.word).or_else(|| self.class_by_context())?;
        if let Some(found) = self.xml() {
            return accepted(class, &found).then_some(found.range);
        }
        let Some((separator, start)) = separator(self.text, self.range.end) else {
            return self.without_separator(class).map(word);
        };
        let extent = match class {
            NameClass::Header => Extent::Line,
            NameClass::Password => Extent::Phrase,
            NameClass::Token | NameClass::Ambiguous | NameClass::Signature => Extent::Word,
        };
        let mut found = value(self.text, start, separator, self.place(), extent)?;
        if class == NameClass::Header {
            found.range = without_scheme(self.text, &found.range);
        }
        accepted(class, &found).then(|| extended(self.text, found.range, extent))
    }

    /// Returns the value of a variable whose name came before: `name: TOKEN`, `value: abc`.
    fn of_variable(&self, variable: &mut Option<usize>) -> Option<Range<usize>> {
        let is = |name: &&str| self.word.eq_ignore_ascii_case(name);
        if !["name", "key", "value", "variable"].iter().any(is) {
            return None;
        }
        let (separator, start) = separator(self.text, self.range.end)?;
        let found = value(self.text, start, separator, self.place(), Extent::Word)?;
        if is(&"value") {
            let name = variable.take()?;
            let is_near = self.range.start - name <= NEAR;
            return (is_near && !is_trivial(found.text())).then_some(found.range);
        }
        // No variable has a longer name.
        let name = Some(found.text()).filter(|name| name.len() <= NEAR);
        let is_secret = matches!(
            name.and_then(class),
            Some(NameClass::Password | NameClass::Token | NameClass::Header)
        );
        *variable = is_secret.then_some(found.range.end);
        None
    }

    /// Returns the value after a scheme of HTTP authentication: `Bearer abc`.
    fn of_scheme(&self) -> Option<Range<usize>> {
        let is_bearer = self.word.eq_ignore_ascii_case("bearer");
        if !is_bearer && !self.word.eq_ignore_ascii_case("basic") {
            return None;
        }
        let behind = window(self.text, self.range.end, FAR);
        let start = self.range.end + behind.len() - behind.trim_start_matches(' ').len();
        if start == self.range.end {
            return None;
        }
        let found = value(self.text, start, Separator::Space, NamePlace::Sentence, Extent::Word)?;
        let text = found.text();
        let is_credential =
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte));
        let is_random = looks_random(text, 8)
            || text.len() >= 20
            || text.len() >= 8
                && text.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'=');
        // `Bearer realm="…"` names what is asked for.
        let is_parameter = self.text[found.range.end..].starts_with('"') && text.ends_with('=');
        (is_credential && is_random && !is_parameter && !text.starts_with("realm="))
            .then_some(found.range)
    }

    /// Returns the value of an option of one letter, where its program gives it that meaning.
    fn of_short_option(&self) -> Option<Range<usize>> {
        let option = &self.text[self.range.clone()];
        if !option.starts_with('-') || !self.starts_word() {
            return None;
        }
        let runs = |programs: &[&str]| {
            self.before()
                .split(|one: char| !one.is_ascii_alphanumeric() && one != '-')
                .any(|word| programs.contains(&word))
        };
        let next = || {
            let found = self.next_word(self.range.end)?;
            (!found.text().starts_with('-') && !is_trivial(found.text())).then_some(found)
        };
        match option {
            "-p" if runs(&["login", "sshpass"]) => Some(next()?.range),
            "-a" if runs(&["redis-cli"]) => Some(next()?.range),
            "-w" if runs(&["ldapsearch", "ldapmodify", "ldapadd"]) => Some(next()?.range),
            "-u" | "--user" | "--proxy-user" if runs(&["curl", "wget", "http"]) => {
                let found = next()?;
                found.text().contains(':').then_some(found.range)
            }
            _ if option.len() > 2
                && option.starts_with("-p")
                && runs(&["mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass"]) =>
            {
                Some(self.range.start + 2..self.range.end)
            }
            _ => None,
        }
    }

    /// Returns the class of a word that names a secret only in one place: in the query of an
    /// address, or in a JSON web key.
    fn class_by_context(&self) -> Option<NameClass> {
        let before = self.text[..self.range.start].chars().next_back();
        if matches!(before, Some('?' | '&')) && matches!(self.word, "key" | "code") {
            return Some(NameClass::Signature);
        }
        let is_part = matches!(self.word, "d" | "p" | "q" | "dp" | "dq" | "qi" | "k");
        let is_web_key = || {
            [
                window_before(self.text, self.range.start, FAR),
                window(self.text, self.range.end, FAR),
            ]
            .iter()
            .any(|near| near.contains("\"kty\""))
        };
        let is_web_key = is_part && is_web_key();
        is_web_key.then_some(NameClass::Signature)
    }

    /// Returns the content of the element that the word starts: `<password>abc</password>`.
    fn xml(&self) -> Option<FoundValue<'a>> {
        let starts = self.text[..self.range.start].ends_with('<');
        let content = self.range.end + 1;
        if !starts || !self.text[self.range.end..].starts_with('>') {
            return None;
        }
        let inside = window(self.text, content, FAR);
        let end = content + inside.find(['<', '\n']).unwrap_or(inside.len());
        Some(FoundValue { text: self.text, range: content..end, evidence: Evidence::Stated })
    }

    /// Returns the secret after a name without a separator: the argument of an option, a quoted
    /// word after `password`, or a line of a file for `.netrc`.
    fn without_separator(&self, class: NameClass) -> Option<Range<usize>> {
        if self.text[self.range.clone()].starts_with('-') && self.starts_word() {
            let found = self.next_word(self.range.end)?;
            let is_option = found.text().starts_with('-');
            return (!is_option && accepted(class, &found)).then_some(found.range);
        }
        if class != NameClass::Password {
            return None;
        }
        let before = self.before().trim_start();
        let line = window(self.text, self.range.end, NEAR).split('\n').next().unwrap_or_default();
        let is_netrc = before.split_whitespace().any(|word| word == "login")
            || before.is_empty() && line.split_whitespace().count() == 1 && line.starts_with(' ');
        let is_quoted = line.starts_with(" '") || line.starts_with(" \"");
        let is_sentence = line.strip_prefix(" is ").is_some_and(|rest| {
            rest.split_whitespace().next().is_some_and(|word| looks_random(word, 4))
        });
        let skipped = if is_sentence { " is".len() } else { 0 };
        if !(is_netrc || is_quoted || is_sentence) {
            return None;
        }
        let found = self.next_word(self.range.end + skipped)?;
        (!is_trivial(found.text())).then_some(found.range)
    }

    /// Returns the next word, also on the next line or after quotes and commas, as in lists of
    /// arguments.
    fn next_word(&self, from: usize) -> Option<FoundValue<'a>> {
        let rest = window(self.text, from, NEAR);
        let gap = rest.find(|one: char| !one.is_whitespace() && !"\"',\\".contains(one))?;
        let between = &rest[..gap];
        let is_item = between.contains('\n') && rest[gap..].starts_with("- ");
        let lines = between.matches('\n').count();
        if gap == 0 || lines > 1 || lines == 1 && !is_item && !between.contains([',', '\\']) {
            return None;
        }
        let start = from + gap + if is_item { 2 } else { 0 };
        // The word starts behind its quote.
        let quoted = self.text[..start].ends_with(['"', '\'']);
        let start = if quoted { start - 1 } else { start };
        value(self.text, start, Separator::Space, NamePlace::Sentence, Extent::Word)
    }

    fn starts_word(&self) -> bool {
        let before = self.text[..self.range.start].chars().next_back();
        before.is_none_or(|before| before.is_whitespace() || "\"'`[(,=".contains(before))
    }

    /// Returns where the word is. Before a word that starts its line, there may be indentation, a
    /// dash of a list or `export`.
    fn place(&self) -> NamePlace {
        let before = self.before().trim();
        match before {
            "" | "-" | "export" | "set" | "ENV" | "ARG" | "#" | "+" => NamePlace::Line,
            _ if before.ends_with(['{', ',', ';']) => NamePlace::Entry,
            _ => NamePlace::Sentence,
        }
    }
}

/// Returns a header's value without the scheme, which names the kind of authentication.
fn without_scheme(text: &str, range: &Range<usize>) -> Range<usize> {
    let value = &text[range.clone()];
    let schemes = ["Bearer", "Basic", "Digest", "Negotiate", "token", "AWS4-HMAC-SHA256", "ApiKey"];
    let scheme = schemes.iter().find(|scheme| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && value[scheme.len()..].starts_with(' ')
    });
    range.start + scheme.map_or(0, |scheme| scheme.len() + 1)..range.end
}

/// Returns whether a text stands for a value that is absent, public, or somewhere else.
fn is_trivial(text: &str) -> bool {
    let words = [
        "",
        "true",
        "false",
        "yes",
        "no",
        "null",
        "nil",
        "none",
        "undefined",
        "redacted",
        "hidden",
        "masked",
        "unset",
        "empty",
        "unknown",
        "~",
    ];
    let bare = text.trim_matches(['<', '>', '[', ']', '(', ')', '*', '.', '-']);
    let is_reference = ["${", "$(", "{{", "%(", "%s", "%v", "%q", "<%", "vault:", "ref+"]
        .iter()
        .any(|start| text.starts_with(start));
    let is_variable = text.strip_prefix('$').is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    });
    words.contains(&bare.to_ascii_lowercase().as_str()) || is_reference || is_variable
}

/// Returns whether a value after a name of this class is a secret.
fn accepted(class: NameClass, found: &FoundValue<'_>) -> bool {
    let text = found.text();
    if is_trivial(text) {
        return false;
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b".:".contains(&byte));
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_plain =
        is_number && text.len() < 16 || is_path(text) || is_object_name(text) && !is_uuid(text);
    let is_random = |least: usize| looks_random(text, least) && !is_plain;
    match (class, found.evidence) {
        (NameClass::Password, Evidence::Stated | Evidence::Entry) => true,
        (NameClass::Password, Evidence::Sentence) => text.len() >= 4 && !is_word,
        (NameClass::Token, Evidence::Stated) => text.len() >= 6 && !is_plain,
        (NameClass::Token, Evidence::Sentence) => is_random(8) || text.len() >= 24 && !is_plain,
        (NameClass::Token, Evidence::Entry)
        | (NameClass::Ambiguous, Evidence::Stated | Evidence::Entry) => {
            !is_plain && (text.len() >= 16 || text.len() >= 6 && !is_word)
        }
        (NameClass::Ambiguous, Evidence::Sentence) => {
            let digits = text.bytes().filter(u8::is_ascii_digit).count();
            is_random(8) && is_dense(text) && digits >= 2
        }
        (NameClass::Header, _) => {
            text.len() >= 16 || text.len() >= 6 && text.bytes().any(|byte| byte.is_ascii_digit())
        }
        (NameClass::Signature, _) => is_random(16),
    }
}
