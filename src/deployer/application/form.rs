//! Where an Application's own words come from: this program, or the values of a Helm chart.

use crate::deployer::language::{Written, go_string};
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
    pub(in crate::deployer) fn text(self, text: &str) -> Written {
        match self {
            Self::Rendered { .. } => Written::of_yaml(text),
            Self::Template => Written::of_helm(text),
        }
    }

    /// The template of this form: the same text in two languages.
    pub(in crate::deployer) fn template(self, of: [&'static str; 2]) -> &'static str {
        let [rendered, template] = of;
        match self {
            Self::Rendered { .. } => rendered,
            Self::Template => template,
        }
    }

    /// The name of a release's Application: unique in one Argo CD as long as the bundle's name is.
    pub(in crate::deployer) fn name(self, release: &str) -> Written {
        match self {
            Self::Rendered { bundle, .. } => self.text(&format!("{bundle}-{release}")),
            Self::Template => Written::action(&format!("printf {} .Values.name | quote", go_string(&format!("%s-{release}")))),
        }
    }

    /// The bundle's name.
    pub(in crate::deployer) fn bundle(self) -> Written {
        match self {
            Self::Rendered { bundle, .. } => self.text(bundle),
            Self::Template => Written::action(".Values.name | quote"),
        }
    }

    /// What the project is for.
    pub(in crate::deployer) fn description(self) -> Written {
        match self {
            Self::Rendered { bundle, .. } => self.text(&format!("GPU stack {bundle}")),
            Self::Template => Written::action("printf \"GPU stack %s\" .Values.name | quote"),
        }
    }

    /// Argo CD's namespace.
    pub(in crate::deployer) fn control_namespace(self) -> Written {
        match self {
            Self::Rendered { .. } => self.text(CONTROL_NAMESPACE),
            Self::Template => Written::action(".Release.Namespace | quote"),
        }
    }

    /// The project of all Applications.
    pub(in crate::deployer) fn project(self) -> Written {
        match self {
            Self::Rendered { bundle, .. } => self.text(bundle),
            Self::Template => Written::action(".Values.project | default .Values.name | quote"),
        }
    }

    /// The cluster that is deployed to.
    pub(in crate::deployer) fn server(self) -> Written {
        match self {
            Self::Rendered { .. } => self.text(IN_CLUSTER),
            Self::Template => Written::action(".Values.destination.server | quote"),
        }
    }

    /// The repository of the bundle.
    pub(in crate::deployer) fn repository(self) -> Written {
        match self {
            Self::Rendered { source, .. } => self.text(&source.url),
            Self::Template => Written::action("include \"bundle.repository\" ."),
        }
    }

    /// Its revision.
    pub(in crate::deployer) fn revision(self) -> Written {
        match self {
            Self::Rendered { source, .. } => self.text(&source.revision),
            Self::Template => Written::action("include \"bundle.revision\" ."),
        }
    }

    /// A path of the bundle, from the repository's root.
    pub(in crate::deployer) fn path(self, path: &str) -> Written {
        match self {
            Self::Rendered { source, .. } => self.text(&source.join(path)),
            Self::Template => Written::action(&format!("include \"bundle.path\" (list . {}) | quote", go_string(path))),
        }
    }

    /// A values file of the bundle for a chart that comes from elsewhere.
    pub(in crate::deployer) fn values(self, path: &str) -> Written {
        match self {
            Self::Rendered { source, .. } => self.text(&format!("$values/{}", source.join(path))),
            Self::Template => {
                Written::action(&format!("printf \"$values/%s\" (include \"bundle.path\" (list . {})) | quote", go_string(path)))
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
        assert_eq!(rendered.text("{{ .Values.x }}").as_ref(), "\"{{ .Values.x }}\"");
        assert_eq!(Form::Template.text("{{ .Values.x }}").as_ref(), "\"{{ \"{{\" }} .Values.x }}\"");
        assert_eq!(rendered.values("003-a/values.yaml").as_ref(), "\"$values/a/003-a/values.yaml\"");
    }
}
