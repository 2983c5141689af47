//! The template engine. Expressions stand in `<< >>` and blocks in `<% %>`, because the files carry shell and Helm's own braces.
//! In `*.yaml.j2` every expression prints as a JSON scalar, which is YAML that no parser misreads; `|yaml` prints a block. In `*.html.j2` it
//! prints as text.

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value, syntax::SyntaxConfig};
use serde::Serialize;

use crate::contract::names::{LEASE_NAME, LEASE_NAMESPACE};
use crate::contract::yaml;

/// Why a file cannot be rendered: but for the first two, a mistake of this program, whatever the recipe says.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The deployer reads the bundle from a repository, and none is named.
    #[error("deployer `{0}` reads the bundle from a repository, and its files must say which one")]
    NoSource(&'static str),
    /// The deployer cannot do what the options ask for.
    #[error("deployer `{deployer}` {reason}")]
    Unable {
        /// Its name.
        deployer: &'static str,
        /// What it cannot do, and why.
        reason: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// A template and what it is given do not fit.
    #[error("template `{name}` does not fit its input at line {line}: {kind}")]
    Template {
        /// Which one.
        name: String,
        /// Where in it.
        line: usize,
        /// What is wrong. Not the engine's full message: that would print values.
        kind: String,
    },
    /// A value that YAML cannot express.
    #[error("unable to write `{0}` as YAML")]
    Yaml(String),
}

/// What every README says of what no deployer removes.
pub const LEFTOVERS: (&str, &str) = ("leftovers.md.j2", include_str!("../../templates/shared/leftovers.md.j2"));

/// Templates by name.
pub struct Templates(Environment<'static>);

impl Templates {
    /// Compiles `sources`: name and text.
    ///
    /// # Errors
    /// A template that does not compile.
    pub fn new(sources: &[(&'static str, &'static str)]) -> Result<Self, RenderError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .block_delimiters("<%", "%>")
            .variable_delimiters("<<", ">>")
            .comment_delimiters("<#", "#>")
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()
            .map_err(|error| failed("syntax", &error))?;
        environment.set_syntax(syntax);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_debug(false);
        environment.set_auto_escape_callback(|name| match name {
            name if name.ends_with(".yaml.j2") => AutoEscape::Json,
            name if name.ends_with(".html.j2") => AutoEscape::Html,
            _ => AutoEscape::None,
        });
        environment.add_filter("shell", |text: String| shell_word(&text));
        environment.add_filter("yaml", |value: Value| match yaml::to_string(&value) {
            Ok(text) => Ok(Value::from_safe_string(text.trim_end().to_owned())),
            Err(error) => Err(Error::new(ErrorKind::InvalidOperation, error.to_string())),
        });
        environment.add_global("lease", LEASE_NAME);
        environment.add_global("lease_namespace", LEASE_NAMESPACE);
        for (name, source) in sources {
            environment.add_template(name, source).map_err(|error| failed(name, &error))?;
        }
        Ok(Self(environment))
    }

    /// Renders the template called `name`.
    ///
    /// # Errors
    /// It is not there, or does not fit `context`.
    pub fn render(&self, name: &str, context: impl Serialize) -> Result<String, RenderError> {
        let template = self.0.get_template(name).map_err(|error| failed(name, &error))?;
        template.render(Serde(context)).map_err(|error| failed(name, &error))
    }
}

fn failed(name: &str, error: &Error) -> RenderError {
    RenderError::Template {
        name: error.name().unwrap_or(name).to_owned(),
        line: error.line().unwrap_or_default(),
        kind: error.kind().to_string(),
    }
}

/// `text` as one word of a POSIX shell.
pub fn shell_word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "_./:=@%+,-".contains(character);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_is_escaped_and_shell_is_quoted() {
        let templates =
            Templates::new(&[("a.yaml.j2", "a: << a >>\nb:\n  << b|yaml|indent(2) >>\n"), ("b.sh.j2", "echo << a|shell >>\n")]).unwrap();
        let context = json!({"a": "yes", "b": {"on": "off", "n": 1}});
        assert_eq!(templates.render("a.yaml.j2", &context).unwrap(), "a: \"yes\"\nb:\n  \"on\": \"off\"\n  \"n\": 1\n");
        assert_eq!(templates.render("b.sh.j2", json!({"a": "it's"})).unwrap(), "echo 'it'\\''s'\n");
        let error = templates.render("b.sh.j2", json!({"b": "secret"})).unwrap_err().to_string();
        assert!(error.contains("b.sh.j2") && error.contains("line 1") && !error.contains("secret"), "{error}");
    }
}
