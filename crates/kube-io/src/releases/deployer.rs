//! Who deployed a hook release, by the metadata that deployers give the objects of a chart.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The deployer of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseDeployer {
    /// Flux's helm-controller, with the HelmRelease.
    Flux {
        /// Namespace of the HelmRelease.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Argo CD, with the Application.
    ArgoCd {
        /// Namespace of the Application, if it is not Argo CD's own.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
    /// Helm or helmfile, which leave the same metadata.
    Helm,
}

impl ReleaseDeployer {
    /// Reads the deployer from an ordinary object of the release. `None`: none has left metadata.
    /// Sources: helm-controller's `internal/postrender/origin_labels.go`, Argo CD's
    /// `docs/user-guide/resource_tracking.md`, Helm's `pkg/action/validate.go`.
    pub(super) fn of(metadata: &ObjectMeta) -> Option<Self> {
        let label = |key: &str| metadata.labels.as_ref()?.get(key).cloned();
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        let flux =
            label("helm.toolkit.fluxcd.io/namespace").zip(label("helm.toolkit.fluxcd.io/name"));
        if let Some((namespace, name)) = flux {
            return Some(Self::Flux { namespace, name });
        }
        // `APPLICATION:GROUP/KIND:NAMESPACE/NAME`; in another namespace than Argo CD's own, the
        // Application is `NAMESPACE_NAME`.
        if let Some(tracked) = annotation("argocd.argoproj.io/tracking-id") {
            let (application, _) = tracked.split_once(':')?;
            let (namespace, name) = match application.split_once('_') {
                Some((namespace, name)) => (Some(namespace.to_owned()), name),
                None => (None, application),
            };
            return Some(Self::ArgoCd { namespace, name: name.to_owned() });
        }
        annotation("meta.helm.sh/release-name").map(|_| Self::Helm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Option<ReleaseDeployer> {
        let map = |pairs: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            Some(pairs.iter().map(owned).collect())
        };
        ReleaseDeployer::of(&ObjectMeta {
            labels: map(labels),
            annotations: map(annotations),
            ..ObjectMeta::default()
        })
    }

    #[test]
    fn deployers_are_recognized_by_their_metadata() {
        let helm = ("meta.helm.sh/release-name", "post");
        let flux =
            [("helm.toolkit.fluxcd.io/name", "post"), ("helm.toolkit.fluxcd.io/namespace", "gpu")];
        let tracking = "argocd.argoproj.io/tracking-id";
        let argo = |namespace: Option<&str>, name: &str| ReleaseDeployer::ArgoCd {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(read(&[], &[]), None);
        assert_eq!(read(&[], &[helm]), Some(ReleaseDeployer::Helm));
        let (namespace, name) = ("gpu".to_owned(), "post".to_owned());
        assert_eq!(read(&flux, &[helm]), Some(ReleaseDeployer::Flux { namespace, name }));
        for (tracked, expected) in [
            ("app:/ConfigMap:gpu/post-trigger", Some(argo(None, "app"))),
            ("team_app:/ConfigMap:gpu/post-trigger", Some(argo(Some("team"), "app"))),
            ("unreadable", None),
        ] {
            assert_eq!(read(&[], &[(tracking, tracked)]), expected, "{tracked}");
        }
    }
}
