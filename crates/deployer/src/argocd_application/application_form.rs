//! The origin of an Application's names, repository and cluster: this program, or values of a Helm
//! chart.

use crate::source::BundleSource;
use crate::template_language::{WrittenText, go_string};

/// The namespace that Argo CD runs in, unless the umbrella chart is installed elsewhere.
pub const CONTROL_NAMESPACE: &str = "argocd";
/// The cluster that Argo CD itself runs in.
pub const IN_CLUSTER: &str = "https://kubernetes.default.svc";

/// The form of an Application.
#[derive(Clone, Copy, Debug)]
pub enum ApplicationForm<'a> {
    /// This program writes all values.
    Rendered {
        /// The bundle's name, the prefix of every Application's name.
        bundle: &'a str,
        /// The bundle's repository.
        source: &'a BundleSource,
    },
    /// A template of the umbrella chart; its helpers are in `templates/argocd-helm/_helpers.tpl`.
    Template,
}

impl ApplicationForm<'_> {
    /// Returns a fixed text.
    pub(crate) fn text(self, text: &str) -> WrittenText {
        match self {
            Self::Rendered { .. } => WrittenText::of_yaml(text),
            Self::Template => WrittenText::of_helm(text),
        }
    }

    /// Returns the template for this form.
    pub(crate) fn template(self, of: [&'static str; 2]) -> &'static str {
        let [rendered, template] = of;
        match self {
            Self::Rendered { .. } => rendered,
            Self::Template => template,
        }
    }

    /// Returns the text from this program, or the umbrella chart's action that prints it.
    fn word(
        self,
        rendered: impl FnOnce(&str, &BundleSource) -> String,
        action: &str,
    ) -> WrittenText {
        match self {
            Self::Rendered { bundle, source } => self.text(&rendered(bundle, source)),
            Self::Template => WrittenText::action(action),
        }
    }

    /// Returns the name of a release's Application. It is unique in Argo CD if the bundle's name
    /// is.
    pub(crate) fn name(self, release: &str) -> WrittenText {
        let action = format!("printf {} .Values.name | quote", go_string(&format!("%s-{release}")));
        self.word(|bundle, _| format!("{bundle}-{release}"), &action)
    }

    /// Returns the bundle's name.
    pub(crate) fn bundle(self) -> WrittenText {
        self.word(|bundle, _| bundle.to_owned(), ".Values.name | quote")
    }

    /// Returns the project's description.
    pub(crate) fn description(self) -> WrittenText {
        self.word(
            |bundle, _| format!("GPU stack {bundle}"),
            "printf \"GPU stack %s\" .Values.name | quote",
        )
    }

    /// Returns Argo CD's namespace.
    pub(crate) fn control_namespace(self) -> WrittenText {
        self.word(|_, _| CONTROL_NAMESPACE.to_owned(), ".Release.Namespace | quote")
    }

    /// Returns the project of all Applications.
    pub(crate) fn project(self) -> WrittenText {
        self.word(|bundle, _| bundle.to_owned(), ".Values.project | default .Values.name | quote")
    }

    /// Returns the target cluster.
    pub(crate) fn server(self) -> WrittenText {
        self.word(|_, _| IN_CLUSTER.to_owned(), ".Values.destination.server | quote")
    }

    /// Returns the repository of the bundle.
    pub(crate) fn repository(self) -> WrittenText {
        self.word(|_, source| source.url.clone(), "include \"bundle.repository\" .")
    }

    /// Returns the revision of the bundle.
    pub(crate) fn revision(self) -> WrittenText {
        self.word(|_, source| source.revision.clone(), "include \"bundle.revision\" .")
    }

    /// Returns a path of the bundle, from the repository's root.
    pub(crate) fn path(self, path: &str) -> WrittenText {
        self.word(
            |_, source| source.join(path),
            &format!("include \"bundle.path\" (list . {}) | quote", go_string(path)),
        )
    }

    /// Whether the bundle's repository can be a source of values files for a chart from another
    /// source. Argo CD clones such a source with Git, also if it is a registry (3.5.7:
    /// `runManifestGenAsync` in `reposerver/repository/repository.go`).
    pub(crate) fn has_values_source(self) -> bool {
        match self {
            Self::Rendered { source, .. } => !source.is_oci(),
            Self::Template => true,
        }
    }

    /// Returns a values file of the bundle, for a chart from another source.
    pub(crate) fn values(self, path: &str) -> WrittenText {
        let action = format!(
            "printf \"$values/%s\" (include \"bundle.path\" (list . {})) | quote",
            go_string(path)
        );
        self.word(|_, source| format!("$values/{}", source.join(path)), &action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_argocd_helm_braces_in_texts_stay_text() {
        let source = BundleSource::new("https://git.example.com/fleet.git", "main", "a").unwrap();
        let rendered = ApplicationForm::Rendered { bundle: "b", source: &source };
        assert_eq!(rendered.text("{{ .Values.x }}").as_ref(), "\"{{ .Values.x }}\"");
        assert_eq!(
            ApplicationForm::Template.text("{{ .Values.x }}").as_ref(),
            "\"{{ \"{{\" }} .Values.x }}\""
        );
        assert_eq!(
            rendered.values("003-a/values.yaml").as_ref(),
            "\"$values/a/003-a/values.yaml\""
        );
    }
}
