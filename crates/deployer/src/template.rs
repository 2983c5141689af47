//! The template engine. Expressions are in `<< >>` and blocks in `<% %>`, because the files contain
//! the braces of shell and Helm.
//!
//! The name of a template determines its language, and every expression prints a value of that
//! language ([`TemplateLanguage`]): in YAML a quoted scalar, in a script one word, in Markdown
//! text. Filters select another form: `|yaml` a block, `|quoted` a YAML scalar in Markdown,
//! `|comment` a line after `#`, `|word` a plain word, `|code` inline code in Markdown, `|shell` a
//! shell word in Markdown. No filter prints a raw value.

use minijinja::value::Serde;
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value, escape_formatter,
    syntax::SyntaxConfig,
};
use serde::Serialize;

use super::template_language::TemplateLanguage;
use contract::names::{LEASE_NAME, LEASE_NAMESPACE};

/// Why a file cannot be rendered. All but the first two are bugs of this program.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The deployer reads the bundle from a repository, and the options name none.
    #[error("deployer `{0}` reads the bundle from a repository, and no repository is set")]
    NoSource(&'static str),
    /// The deployer does not support the options.
    #[error("deployer `{deployer}` {reason}")]
    Unable {
        /// The deployer's name.
        deployer: &'static str,
        /// What the deployer cannot do, and why.
        reason: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// A template does not fit its input.
    #[error("template `{name}` does not fit its input at line {line}: {kind}")]
    Template {
        /// The template's name.
        name: String,
        /// The line in the template.
        line: usize,
        /// The kind of error. The engine's full message would print values.
        kind: String,
    },
    /// A word that cannot be in a script, or that would be an option.
    #[error(
        "the release `{0}` cannot be written into a script: a word of it starts with `-` or has a control character"
    )]
    Script(String),
    /// A value that YAML cannot express.
    #[error("cannot write `{0}` as YAML")]
    Yaml(String),
}

impl RenderError {
    /// Creates the error for options that the deployer does not support.
    pub(super) fn unable(
        deployer: &'static str,
        reason: impl Into<String>,
        hint: &'static str,
    ) -> Self {
        Self::Unable { deployer, reason: reason.into(), hint }
    }
}

/// The part of every README about objects that no deployer removes.
pub const LEFTOVERS: (&str, &str) =
    ("leftovers.md.j2", include_str!("../../../templates/shared/leftovers.md.j2"));

/// The part of scripts that finds the folder of their bundle.
pub const BUNDLE_FOLDER: (&str, &str) =
    ("bundle-folder.sh.j2", include_str!("../../../templates/shared/bundle-folder.sh.j2"));

/// Compiled templates by name.
pub struct TemplateSet(Environment<'static>);

impl TemplateSet {
    /// Compiles `sources`: name and text.
    ///
    /// # Errors
    /// A template does not compile.
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
        environment.set_auto_escape_callback(|name| {
            match TemplateLanguage::from_template_name(name) {
                Some(TemplateLanguage::Html) => AutoEscape::Html,
                Some(_) | None => AutoEscape::Custom("language".into()),
            }
        });
        environment.set_formatter(|out, state, value| {
            let language = language(state)?;
            if language == TemplateLanguage::Html {
                escape_formatter(out, state, value)
            } else if value.is_safe() {
                out.write_str(value.as_str().unwrap_or_default()).map_err(Error::from)
            } else {
                out.write_str(&language.write(value)?).map_err(Error::from)
            }
        });
        // Filters that would print a raw value.
        for filter in ["safe", "escape", "e", "tojson", "urlencode"] {
            environment.remove_filter(filter);
        }
        environment.add_filter("yaml", |state: &State, value: Value| {
            language(state)?.document(&value).map(Value::from_safe_string)
        });
        environment.add_filter("comment", |state: &State, value: Value| {
            language(state)?.comment(&value).map(Value::from_safe_string)
        });
        environment.add_filter("word", |value: Value| {
            TemplateLanguage::word(&value).map(Value::from_safe_string)
        });
        environment.add_filter("code", |state: &State, value: Value| {
            language(state)?.code(&value).map(Value::from_safe_string)
        });
        environment
            .add_filter("quoted", |text: String| Value::from_safe_string(yaml::quoted(&text)));
        environment.add_filter("shell", |value: Value| {
            TemplateLanguage::Shell.write(&value).map(Value::from_safe_string)
        });
        environment.add_global("lease", LEASE_NAME);
        environment.add_global("lease_namespace", LEASE_NAMESPACE);
        for (name, source) in sources {
            environment.add_template(name, source).map_err(|error| failed(name, &error))?;
        }
        Ok(Self(environment))
    }

    /// Renders the template `name`.
    ///
    /// # Errors
    /// The template does not exist, or does not fit `context`.
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

/// Returns the language of the template that is being rendered.
fn language(state: &State) -> Result<TemplateLanguage, Error> {
    TemplateLanguage::from_template_name(state.name()).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOperation, "the template's name has no known ending")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_is_escaped_and_shell_is_quoted() {
        let templates = TemplateSet::new(&[
            ("a.yaml.j2", "a: << a >>\nb:\n  << b|yaml|indent(2) >>\n"),
            ("b.sh.j2", "echo << a|shell >>\n"),
        ])
        .unwrap();
        let context = json!({"a": "yes", "b": {"on": "off", "n": 1}});
        assert_eq!(
            templates.render("a.yaml.j2", &context).unwrap(),
            "a: \"yes\"\nb:\n  \"on\": \"off\"\n  \"n\": 1\n"
        );
        assert_eq!(templates.render("b.sh.j2", json!({"a": "it's"})).unwrap(), "echo 'it'\\''s'\n");
        assert!(templates.render("b.sh.j2", json!({"a": "x\ntouch y"})).is_err());
        let error = templates.render("b.sh.j2", json!({"b": "secret"})).unwrap_err().to_string();
        assert!(
            error.contains("b.sh.j2") && error.contains("line 1") && !error.contains("secret"),
            "{error}"
        );
    }
    #[test]
    fn forgotten_filter_prints_no_raw_value() {
        let text = "<< a >>\n";
        let names =
            ["a.yaml.j2", "b.tpl.yaml.j2", "helmfile.yaml.j2", "c.sh.j2", "d.md.j2", "e.html.j2"];
        let templates = TemplateSet::new(&names.map(|name| (name, text))).unwrap();
        let hostile = "x' \"`$(touch y)` *b* {{ exec }} <i>";
        for name in names {
            let printed = templates.render(name, json!({"a": hostile})).unwrap();
            assert_ne!(printed.trim_end(), hostile, "{name}");
        }
        for filter in ["safe", "tojson", "escape"] {
            let source: &'static str = Box::leak(format!("<< a|{filter} >>").into_boxed_str());
            let templates = TemplateSet::new(&[("a.yaml.j2", source)]).unwrap();
            assert!(templates.render("a.yaml.j2", json!({"a": "x"})).is_err(), "{filter}");
        }
        let unknown = TemplateSet::new(&[("a.txt.j2", text)]).unwrap();
        assert!(unknown.render("a.txt.j2", json!({"a": "x"})).is_err());
    }
}
