//! The deployer `argocd-helm`: evaluates the umbrella chart's templates like Helm, without Helm.
//! They use only a few expressions, which this module evaluates. Any other expression is an error.

use serde_json::Value;

pub(crate) use contract::chart_files::CHART;
use contract::chart_files::VALUES;

use crate::ReadbackError;
use crate::application::{self, ApplicationSource};
use crate::declared::DeclaredBundle;
use crate::files::{TextFiles, parse};

/// The folder of the Applications in the chart.
const TEMPLATES: &str = "templates";
/// The namespace of the chart, unless the user chooses another one.
const CONTROL_NAMESPACE: &str = "argocd";
/// Placeholder for repository and revision, which the user names at installation.
const NAMED_LATER: &str = "(named at install)";

/// Reads the declarations of the files.
///
/// # Errors
/// A file cannot be read, or an expression is unknown.
pub(crate) fn read_bundle(files: &TextFiles) -> Result<DeclaredBundle, ReadbackError> {
    let values: Value = files.yaml(VALUES)?.unwrap_or_default();
    let origin = ApplicationSource {
        repository: NAMED_LATER.to_owned(),
        revision: NAMED_LATER.to_owned(),
        prefix: String::new(),
        prunes: false,
        holds_waves: true,
    };
    let (mut applications, mut project) = (Vec::new(), None);
    for (name, template) in files.below(TEMPLATES) {
        if !template.lines().any(|line| line.starts_with("kind: ")) {
            continue;
        }
        let path = format!("{TEMPLATES}/{name}");
        // The only condition is whether to create the project.
        let (condition, end) = ("{{- if .Values.createProject }}\n", "{{- end }}\n");
        let template = template
            .strip_prefix(condition)
            .and_then(|inside| inside.strip_suffix(end))
            .unwrap_or(template);
        let text = expanded(template, &values).map_err(|expression| ReadbackError::Unreadable {
            path: path.clone(),
            reason: format!("unknown expression `{expression}`"),
        })?;
        let object: Value = parse(&path, &text)?;
        if application::is_application(&object, CONTROL_NAMESPACE) {
            applications.push((path, object));
        } else if values["createProject"] == true {
            project = Some(object);
        }
    }
    application::read_applications(files, &origin, project.as_ref(), &applications)
}

/// Returns a template with evaluated expressions.
///
/// # Errors
/// The first unknown expression.
fn expanded<'a>(template: &'a str, values: &Value) -> Result<String, &'a str> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text += before;
        // The only expression that contains braces prints them.
        if let Some(behind) = after.strip_prefix(" \"{{\" }}") {
            text += "{{";
            rest = behind;
            continue;
        }
        let (expression, behind) = after.split_once("}}").ok_or(after)?;
        text += &evaluated(expression.trim_matches([' ', '-']), values).ok_or(expression)?;
        rest = behind;
    }
    Ok(text + rest)
}

/// Evaluates one expression to one YAML scalar; `None` if it is unknown.
fn evaluated(expression: &str, values: &Value) -> Option<String> {
    if matches!(expression, "include \"bundle.repository\" ." | "include \"bundle.revision\" .") {
        return Some(quoted(NAMED_LATER));
    }
    let expression = expression.strip_suffix(" | quote")?;
    if let Some((format, argument)) = expression.strip_prefix("printf ").and_then(word) {
        return Some(quoted(&format.replace(
            "%s",
            &inner(argument.trim_start_matches('(').trim_end_matches(')'), values)?,
        )));
    }
    Some(quoted(&inner(expression, values)?))
}

/// Evaluates a value, or a path of the bundle, to which the chart's helper prepends the bundle's
/// folder.
fn inner(expression: &str, values: &Value) -> Option<String> {
    if let Some(path) = expression.strip_prefix("include \"bundle.path\" (list . ") {
        return word(path).map(|(path, _)| path);
    }
    if expression == ".Release.Namespace" {
        return Some(CONTROL_NAMESPACE.to_owned());
    }
    let value = |path: &str| {
        let pointer = path.strip_prefix(".Values.")?.replace('.', "/");
        values.pointer(&format!("/{pointer}")).and_then(Value::as_str).map(str::to_owned)
    };
    let all: Vec<String> = expression.split(" | default ").map(value).collect::<Option<_>>()?;
    all.iter().find(|text| !text.is_empty()).or(all.last()).cloned()
}

/// Returns the quoted text at the start of `expression`, and the rest after a space.
fn word(expression: &str) -> Option<(String, &str)> {
    let (text, rest) = expression.strip_prefix('"')?.split_once('"')?;
    Some((text.to_owned(), rest.trim_start_matches([' ', ')'])))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn umbrella_chart_expressions_are_understood_no_others() {
        let values =
            json!({"name": "fleet", "project": "", "destination": {"server": "https://k"}});
        for (template, expected) in [
            (r#"{{ printf "%s-a" .Values.name | quote }}"#, r#""fleet-a""#),
            (r"{{ .Values.project | default .Values.name | quote }}", r#""fleet""#),
            (r"{{ .Values.destination.server | quote }} x", r#""https://k" x"#),
            (r#"{{ include "bundle.path" (list . "003-a") | quote }}"#, r#""003-a""#),
            (
                r#"{{ printf "$values/%s" (include "bundle.path" (list . "003-a/values.yaml")) | quote }}"#,
                r#""$values/003-a/values.yaml""#,
            ),
            (r#"{{ include "bundle.revision" . }}"#, r#""(named at install)""#),
            (r#""{{ "{{" }} .Values.x }}""#, r#""{{ .Values.x }}""#),
        ] {
            assert_eq!(expanded(template, &values).as_deref(), Ok(expected), "{template}");
        }
        for template in [
            "{{ .Values.absent | quote }}",
            "{{ if .Values.name }}",
            "{{ .Values.name",
            "{{ tpl .Values.name . | quote }}",
        ] {
            assert!(expanded(template, &values).is_err(), "{template}");
        }
    }
}
