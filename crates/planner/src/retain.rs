//! Retains the NicClusterPolicy when its chart no longer contains it. Since 24.10, the Network
//! Operator's chart does not render a NicClusterPolicy: Helm would delete the one that an older
//! chart created, and with it the drivers and every secondary network. The chart has its own hook
//! against that, which does nothing if hooks are disabled, and does not prevent Argo CD's pruning.
//! Also, an Application that no longer contains an object which stays is `OutOfSync` until another
//! Application takes the object over; in a later wave, that Application would wait for exactly
//! this.

use std::collections::BTreeMap;

use contract::names;

/// Labels or annotations.
pub type KeyValues = BTreeMap<String, String>;

/// The first chart version that renders no NicClusterPolicy.
const LETS_GO: (u32, u32) = (24, 10);

/// The observed state of the NicClusterPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainState {
    /// `metadata.resourceVersion`: only the version that was read may be changed.
    pub version: String,
    /// Its labels.
    pub labels: KeyValues,
    /// Its annotations.
    pub annotations: KeyValues,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// What to do about the NicClusterPolicy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetainDecision {
    /// Nothing, and why.
    Nothing(&'static str),
    /// These annotations are missing.
    Annotate(KeyValues),
    /// It is being deleted: annotations can no longer retain it.
    Lost,
}

/// Decides how to retain the policy. `policy` is `None` if the policy or its API does not exist.
/// `version`: the chart version that is about to be deployed; an unreadable version counts as new,
/// because the annotations do no harm. `component`: the operator's release, whose name identifies
/// its Application.
pub fn keeping(
    policy: Option<&RetainState>,
    component: &str,
    version: Option<&str>,
) -> RetainDecision {
    let Some(policy) = policy else {
        return RetainDecision::Nothing("there is no NicClusterPolicy");
    };
    if version.and_then(release).is_some_and(|version| version < LETS_GO) {
        return RetainDecision::Nothing(
            "charts before 24.10 retain the NicClusterPolicy, because they render it",
        );
    }
    if !is_components(policy, component) {
        return RetainDecision::Nothing(
            "neither Helm nor the operator's Application manages the NicClusterPolicy",
        );
    }
    if policy.deleting {
        return RetainDecision::Lost;
    }
    let missing = missing(&policy.annotations);
    if missing.is_empty() {
        RetainDecision::Nothing("the NicClusterPolicy is already retained")
    } else {
        RetainDecision::Annotate(missing)
    }
}

/// Returns whether the operator's deployer created the policy, and may delete it. Argo CD's
/// Applications are called `RECIPE-RELEASE`; policies of others are not changed.
fn is_components(policy: &RetainState, component: &str) -> bool {
    let is_application = |name: &str| {
        name.strip_suffix(component)
            .is_some_and(|before| before.is_empty() || before.ends_with(['-', '_', '/']))
    };
    let tracked =
        policy.annotations.get(names::ARGO_TRACKING_ANNOTATION).and_then(|id| id.split(':').next());
    let labeled = [names::HELM_INSTANCE_LABEL, names::ARGO_INSTANCE_LABEL]
        .map(|label| policy.labels.get(label).map(String::as_str));
    policy.labels.get(names::HELM_MANAGED.0).is_some_and(|by| by == names::HELM_MANAGED.1)
        || tracked.into_iter().chain(labeled.into_iter().flatten()).any(is_application)
}

/// Returns year and month of a version of the Network Operator's chart (`24.10.0`, `v25.1.0`).
pub fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn missing(annotations: &KeyValues) -> KeyValues {
    let mut missing = KeyValues::new();
    let (policy, keep) = names::HELM_POLICY_ANNOTATION;
    if annotations.get(policy).is_none_or(|found| found != keep) {
        missing.insert(policy.to_owned(), keep.to_owned());
    }
    let mut options = options(annotations, names::ARGO_OPTIONS_ANNOTATION);
    if options.is_empty() {
        // The exact value in the bundle: for an object that is applied on the server, another value
        // would be a conflict.
        missing.insert(names::ARGO_OPTIONS_ANNOTATION.to_owned(), names::ARGO_KEPT.to_owned());
    } else if !options.contains(&names::ARGO_NO_PRUNE) {
        // Other options stay, except an opposite one.
        options.retain(|option| !option.starts_with("Prune="));
        options.push(names::ARGO_NO_PRUNE);
        missing.insert(names::ARGO_OPTIONS_ANNOTATION.to_owned(), options.join(","));
    }
    let mut options = self::options(annotations, names::ARGO_COMPARE_ANNOTATION);
    if !options.contains(&names::ARGO_IGNORE_EXTRANEOUS) {
        options.push(names::ARGO_IGNORE_EXTRANEOUS);
        missing.insert(names::ARGO_COMPARE_ANNOTATION.to_owned(), options.join(","));
    }
    missing
}

/// Returns the options in an annotation of Argo CD.
fn options<'a>(annotations: &'a KeyValues, annotation: &str) -> Vec<&'a str> {
    let list = annotations.get(annotation).map(String::as_str).unwrap_or_default();
    list.split(',').map(str::trim).filter(|option| !option.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPONENT: &str = "network-operator";

    fn pairs(pairs: &[(&str, &str)]) -> KeyValues {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn helms(annotations: &[(&str, &str)]) -> RetainState {
        RetainState {
            version: "1".into(),
            labels: pairs(&[names::HELM_MANAGED]),
            annotations: pairs(annotations),
            deleting: false,
        }
    }

    #[test]
    fn only_objects_a_new_chart_drops_are_retained() {
        let all = [
            names::HELM_POLICY_ANNOTATION,
            (names::ARGO_OPTIONS_ANNOTATION, "Prune=false,Delete=false,ServerSideApply=true"),
            (names::ARGO_COMPARE_ANNOTATION, "IgnoreExtraneous"),
        ];
        let wanted = RetainDecision::Annotate(pairs(&all));
        for version in [
            None,
            Some("24.10.0"),
            Some("25.1.0"),
            Some("v26.4.1"),
            Some("26.7.0-rc.2"),
            Some("latest"),
        ] {
            assert_eq!(keeping(Some(&helms(&[])), COMPONENT, version), wanted, "{version:?}");
        }
        let nothing = |policy: Option<&RetainState>, version| {
            matches!(keeping(policy, COMPONENT, version), RetainDecision::Nothing(_))
        };
        assert!(nothing(None, Some("25.1.0")));
        assert!(nothing(Some(&helms(&[])), Some("24.7.1")));
        assert!(nothing(Some(&helms(&all)), Some("25.1.0")));
        assert!(nothing(
            Some(&RetainState {
                labels: pairs(&[("app.kubernetes.io/managed-by", "kubectl")]),
                ..helms(&[])
            }),
            None
        ));
        assert!(nothing(Some(&RetainState { labels: KeyValues::new(), ..helms(&[]) }), None));
        assert_eq!(
            keeping(Some(&RetainState { deleting: true, ..helms(&all) }), COMPONENT, None),
            RetainDecision::Lost
        );
    }

    #[test]
    fn argo_cd_objects_without_helm_label_are_retained() {
        let is_kept = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| {
            let policy = RetainState { labels: pairs(labels), ..helms(annotations) };
            matches!(keeping(Some(&policy), COMPONENT, Some("26.4.1")), RetainDecision::Annotate(_))
        };
        let tracked = |application: &str| {
            let id = format!("{application}:mellanox.com/NicClusterPolicy:/nic-cluster-policy");
            is_kept(&[], &[(names::ARGO_TRACKING_ANNOTATION, &id)])
        };
        assert!(
            tracked("e2e-network-operator")
                && tracked("network-operator")
                && tracked("team-a_network-operator")
        );
        assert!(
            !tracked("e2e-network-operator-resources")
                && !tracked("netops")
                && !tracked("subnetwork-operator"),
            "somebody else's"
        );
        for label in [names::HELM_INSTANCE_LABEL, names::ARGO_INSTANCE_LABEL] {
            assert!(is_kept(&[(label, "e2e-network-operator")], &[]));
            assert!(!is_kept(&[(label, "mine")], &[]), "somebody else's");
        }
    }

    #[test]
    fn others_options_stay() {
        let written = |annotation: &str, found: &str| match keeping(
            Some(&helms(&[(annotation, found)])),
            COMPONENT,
            None,
        ) {
            RetainDecision::Annotate(annotations) => annotations.get(annotation).cloned(),
            RetainDecision::Nothing(_) | RetainDecision::Lost => None,
        };
        let options = |found: &str| written(names::ARGO_OPTIONS_ANNOTATION, found);
        assert_eq!(
            options("ServerSideApply=true, Delete=false").as_deref(),
            Some("ServerSideApply=true,Delete=false,Prune=false")
        );
        assert_eq!(
            options("Prune=confirm,Replace=true").as_deref(),
            Some("Replace=true,Prune=false")
        );
        assert_eq!(options("Delete=false,Prune=false"), None, "nothing to add");
        let compare = |found: &str| written(names::ARGO_COMPARE_ANNOTATION, found);
        assert_eq!(
            compare("ServerSideDiff=true").as_deref(),
            Some("ServerSideDiff=true,IgnoreExtraneous")
        );
        assert_eq!(compare("IgnoreExtraneous"), None, "nothing to add");
    }
}
