//! Where an Application's own words come from: this program, or the values of a Helm chart. All methods return YAML text.

use serde_json::Value;

use crate::deployer::source::Source;

/// The namespace that Argo CD runs in, unless the umbrella chart is installed elsewhere.
pub const CONTROL_NAMESPACE: &str = "argocd";
/// The cluster that Argo CD itself runs in.
pub const IN_CLUSTER: &str = "https://kubernetes.default.svc";

/// The two forms.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    /// Everything is written out.
    Rendered {
        /// The bundle's name, before every Application's.
        bundle: &'a str,
        /// Where the bundle is.
        source: &'a Source,
    },
    /// A template of the umbrella chart; its helpers are in `templates/argocd-helm/_helpers.tpl`.
    Template,
}

impl Form<'_> {
    /// A fixed text.
    pub fn text(self, text: &str) -> String {
        let scalar = Value::from(text).to_string();
        match self {
            Self::Rendered { .. } => scalar,
            Self::Template => scalar.replace("{{", "{{ \"{{\" }}"),
        }
    }

    /// A text behind `#`.
    pub fn comment(self, text: &str) -> String {
        match self {
            Self::Rendered { .. } => text.to_owned(),
            Self::Template => text.replace("{{", "{{ \"{{\" }}"),
        }
    }

    /// The name of a release's Application: unique in one Argo CD as long as the bundle's name is.
    pub fn name(self, release: &str) -> String {
        match self {
            Self::Rendered { bundle, .. } => self.text(&format!("{bundle}-{release}")),
            Self::Template => format!("{{{{ printf \"%s-{release}\" .Values.name | quote }}}}"),
        }
    }

    /// The bundle's name.
    pub fn bundle(self) -> String {
        match self {
            Self::Rendered { bundle, .. } => self.text(bundle),
            Self::Template => "{{ .Values.name | quote }}".to_owned(),
        }
    }

    /// What the project is for.
    pub fn description(self) -> String {
        match self {
            Self::Rendered { bundle, .. } => self.text(&format!("GPU stack {bundle}")),
            Self::Template => "{{ printf \"GPU stack %s\" .Values.name | quote }}".to_owned(),
        }
    }

    /// Argo CD's namespace.
    pub fn control_namespace(self) -> String {
        match self {
            Self::Rendered { .. } => self.text(CONTROL_NAMESPACE),
            Self::Template => "{{ .Release.Namespace | quote }}".to_owned(),
        }
    }

    /// The project of all Applications.
    pub fn project(self) -> String {
        match self {
            Self::Rendered { bundle, .. } => self.text(bundle),
            Self::Template => "{{ .Values.project | default .Values.name | quote }}".to_owned(),
        }
    }

    /// The cluster that is deployed to.
    pub fn server(self) -> String {
        match self {
            Self::Rendered { .. } => self.text(IN_CLUSTER),
            Self::Template => "{{ .Values.destination.server | quote }}".to_owned(),
        }
    }

    /// The repository of the bundle.
    pub fn repository(self) -> String {
        match self {
            Self::Rendered { source, .. } => self.text(&source.url),
            Self::Template => "{{ include \"bundle.repository\" . }}".to_owned(),
        }
    }

    /// Its revision.
    pub fn revision(self) -> String {
        match self {
            Self::Rendered { source, .. } => self.text(&source.revision),
            Self::Template => "{{ include \"bundle.revision\" . }}".to_owned(),
        }
    }

    /// A path of the bundle, from the repository's root.
    pub fn path(self, path: &str) -> String {
        match self {
            Self::Rendered { source, .. } => self.text(&source.join(path)),
            Self::Template => format!("{{{{ include \"bundle.path\" (list . {}) | quote }}}}", Value::from(path)),
        }
    }

    /// A values file of the bundle for a chart that comes from elsewhere.
    pub fn values(self, path: &str) -> String {
        match self {
            Self::Rendered { source, .. } => self.text(&format!("$values/{}", source.join(path))),
            Self::Template => {
                format!("{{{{ printf \"$values/%s\" (include \"bundle.path\" (list . {})) | quote }}}}", Value::from(path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_argocd_helm_braces_in_fixed_texts_are_not_evaluated() {
        let source = Source::new("https://git.example.com/fleet.git", "main", "a").unwrap();
        let rendered = Form::Rendered { bundle: "b", source: &source };
        assert_eq!(rendered.text("{{ .Values.x }}"), "\"{{ .Values.x }}\"");
        assert_eq!(Form::Template.text("{{ .Values.x }}"), "\"{{ \"{{\" }} .Values.x }}\"");
        assert_eq!(Form::Template.comment("{{x}}"), "{{ \"{{\" }}x}}");
        assert_eq!(rendered.values("003-a/values.yaml"), "\"$values/a/003-a/values.yaml\"");
    }
}
