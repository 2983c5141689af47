//! The languages of a bundle's files, each with its only writer of values. A template's name
//! determines its language. Every expression of the template goes through the language's writer, so
//! no expression can print a raw value.

use std::borrow::Cow;

use minijinja::{Error, ErrorKind, Value};

/// The language of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateLanguage {
    /// Plain YAML.
    Yaml,
    /// A Go template for YAML in a Helm chart: Helm evaluates it, then parses the result.
    HelmTemplate,
    /// A state file of helmfile: helmfile parses it, then evaluates each string of a release as a
    /// Go template.
    Helmfile,
    /// A POSIX shell script.
    Shell,
    /// Markdown.
    Markdown,
    /// HTML.
    Html,
}

/// Endings of template names. The first match applies.
const ENDINGS: [(&str, TemplateLanguage); 6] = [
    ("helmfile.yaml.j2", TemplateLanguage::Helmfile),
    (".tpl.yaml.j2", TemplateLanguage::HelmTemplate),
    (".yaml.j2", TemplateLanguage::Yaml),
    (".sh.j2", TemplateLanguage::Shell),
    (".md.j2", TemplateLanguage::Markdown),
    (".html.j2", TemplateLanguage::Html),
];
/// The text that opens an action of a Go template, and the action that prints this text.
const OPEN: (&str, &str) = ("{{", "{{ \"{{\" }}");

impl TemplateLanguage {
    /// Returns the language of the template `name`.
    pub(super) fn from_template_name(name: &str) -> Option<Self> {
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, language)| *language)
    }

    /// Returns a value for the middle of a file.
    ///
    /// # Errors
    /// The language cannot express the value.
    pub(super) fn write(self, value: &Value) -> Result<String, Error> {
        match self {
            Self::Yaml => inline(value),
            Self::HelmTemplate => Ok(evaluated(&inline(value)?).into_owned()),
            Self::Helmfile => match value.as_str() {
                Some(text) => Ok(yaml::quoted(&evaluated(text))),
                None => inline(value),
            },
            Self::Shell => shell_word(&text(value)?)
                .ok_or_else(|| refused("a shell word cannot contain a control character")),
            Self::Markdown => Ok(markdown(&text(value)?)),
            Self::Html => Err(refused("the template engine writes HTML")),
        }
    }

    /// Returns a text for a comment, on one line.
    ///
    /// # Errors
    /// The language has no comments.
    pub(super) fn comment(self, value: &Value) -> Result<String, Error> {
        let line: String = text(value)?
            .chars()
            .map(|character| if is_line_character(character) { character } else { ' ' })
            .collect();
        match self {
            Self::Yaml | Self::Shell | Self::Helmfile => Ok(line),
            Self::HelmTemplate => Ok(evaluated(&line).into_owned()),
            Self::Markdown | Self::Html => Err(refused("this language has no comments")),
        }
    }

    /// Returns a value as a YAML document, without the line break at its end.
    ///
    /// # Errors
    /// The language cannot contain YAML.
    pub(super) fn document(self, value: &Value) -> Result<String, Error> {
        let text = yaml::to_string(value)
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
        match self {
            Self::Yaml | Self::Markdown => Ok(text.trim_end_matches('\n').to_owned()),
            Self::HelmTemplate => Ok(evaluated(text.trim_end_matches('\n')).into_owned()),
            Self::Helmfile | Self::Shell | Self::Html => {
                Err(refused("this language cannot contain a YAML document"))
            }
        }
    }

    /// Returns a word that needs no escaping in any language.
    ///
    /// # Errors
    /// The word needs escaping.
    pub(super) fn word(value: &Value) -> Result<String, Error> {
        let word = text(value)?;
        let fits =
            |character: char| character.is_ascii_alphanumeric() || "._/+-".contains(character);
        let starts = word.starts_with(|first: char| first.is_ascii_alphanumeric());
        if starts && word.chars().all(fits) {
            Ok(word)
        } else {
            Err(refused("this is not a plain word"))
        }
    }

    /// Returns inline code for Markdown.
    ///
    /// # Errors
    /// The language is not Markdown, or the text would end the code or its line.
    pub(super) fn code(self, value: &Value) -> Result<String, Error> {
        let code = text(value)?;
        let fits = self == Self::Markdown
            && !code.is_empty()
            && code.chars().all(|each| is_line_character(each) && !"`|".contains(each));
        if fits { Ok(format!("`{code}`")) } else { Err(refused("this cannot be inline code")) }
    }
}

/// A part of a file from a writer. Templates print it unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenText(String);

impl WrittenText {
    /// Creates a fixed text of this program, in the language of the file.
    pub(super) fn fixed(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Creates a string for a Helm template.
    pub(super) fn of_helm(text: &str) -> Self {
        Self(evaluated(&yaml::quoted(text)).into_owned())
    }

    /// Creates a string for a YAML file.
    pub(super) fn of_yaml(text: &str) -> Self {
        Self(yaml::quoted(text))
    }

    /// Creates an action of a Go template whose result is quoted.
    pub(super) fn action(action: &str) -> Self {
        Self(format!("{{{{ {action} }}}}"))
    }

    /// Creates shell words, separated by spaces; `None` if one cannot be a word or would be an
    /// option.
    pub(super) fn words(words: &[String]) -> Option<Self> {
        let words: Option<Vec<String>> =
            words.iter().map(|word| shell_word(word).filter(|_| !word.starts_with('-'))).collect();
        Some(Self(words?.join(" ")))
    }
}

impl AsRef<str> for WrittenText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<WrittenText> for Value {
    fn from(text: WrittenText) -> Self {
        Self::from_safe_string(text.0)
    }
}

/// Returns `text` as one word of a POSIX shell; `None` if it contains a control character, which a
/// word on one line cannot have.
pub fn shell_word(text: &str) -> Option<String> {
    let plain =
        |character: char| character.is_ascii_alphanumeric() || "_./:=@%+,-".contains(character);
    if !text.chars().all(is_line_character) {
        return None;
    }
    Some(if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    })
}

/// Returns a Go string literal.
pub(super) fn go_string(text: &str) -> String {
    yaml::quoted(text)
}

/// Escapes a text so that a Go template prints it unchanged.
pub(super) fn evaluated(text: &str) -> Cow<'_, str> {
    // CRDs are large, rarely contain a brace, and a search for one character is quick.
    let has_open = |(at, _): (usize, &str)| text[at..].starts_with(OPEN.0);
    if text.match_indices('{').any(has_open) {
        Cow::Owned(text.replace(OPEN.0, OPEN.1))
    } else {
        Cow::Borrowed(text)
    }
}

/// Escapes text for a paragraph or a table cell: characters with a meaning in Markdown get a
/// backslash.
fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\`*_[]<>|#~!&$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(if is_line_character(character) { character } else { ' ' });
    }
    escaped
}

/// Whether a character is not a line break for any parser, nor another control character.
pub(super) fn is_line_character(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{2028}' | '\u{2029}')
}

fn inline(value: &Value) -> Result<String, Error> {
    yaml::to_inline(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Returns a string or a number as text. No other value fits into a line.
fn text(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None if value.is_number() => Ok(value.to_string()),
        None => Err(refused("neither a string nor a number")),
    }
}

fn refused(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_writes_hostile_text_as_text() {
        let hostile = Value::from("a'\"`$(x)|{{ x }}\u{2028}# *");
        let write = |language: TemplateLanguage| language.write(&hostile);
        assert_eq!(write(TemplateLanguage::Yaml).unwrap(), r#""a'\"`$(x)|{{ x }}\u2028# *""#);
        assert_eq!(
            write(TemplateLanguage::HelmTemplate).unwrap(),
            r#""a'\"`$(x)|{{ "{{" }} x }}\u2028# *""#
        );
        assert_eq!(
            write(TemplateLanguage::Helmfile).unwrap(),
            r#""a'\"`$(x)|{{ \"{{\" }} x }}\u2028# *""#
        );
        assert!(write(TemplateLanguage::Shell).is_err());
        assert_eq!(write(TemplateLanguage::Markdown).unwrap(), r#"a'"\`\$(x)\|{{ x }} \# \*"#);
        assert_eq!(
            TemplateLanguage::Shell.write(&Value::from("it's $x; #")).unwrap(),
            r"'it'\''s $x; #'"
        );
        assert_eq!(
            TemplateLanguage::Yaml.comment(&Value::from("a\nb: c\u{2028}d")).unwrap(),
            "a b: c d"
        );
        assert_eq!(
            TemplateLanguage::HelmTemplate.comment(&Value::from("{{x}}")).unwrap(),
            "{{ \"{{\" }}x}}"
        );
    }

    #[test]
    fn word_and_code_refuse_what_could_end_them() {
        for bad in ["", "-x", "a b", "a\n", "'", "{{", "é"] {
            assert!(TemplateLanguage::word(&Value::from(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(
            TemplateLanguage::word(&Value::from("gpu-rollout.dev/bundle")).unwrap(),
            "gpu-rollout.dev/bundle"
        );
        for bad in ["", "`", "a|b", "a\nb"] {
            assert!(TemplateLanguage::Markdown.code(&Value::from(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(TemplateLanguage::Markdown.code(&Value::from("a b")).unwrap(), "`a b`");
    }

    #[test]
    fn shell_line_refuses_options_and_line_breaks() {
        let line = |words: &[&str]| {
            WrittenText::words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(line(&["upstream", "a b"]).unwrap().as_ref(), "upstream 'a b'");
        for bad in ["-o", "--post-renderer", "a\nb", "a\0"] {
            assert_eq!(line(&["upstream", bad]), None, "{bad:?}");
        }
    }
}
