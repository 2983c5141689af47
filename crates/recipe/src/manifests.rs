//! What the text of a manifest template shows without being evaluated: kinds, namespaces and Helm
//! hooks. A template is not YAML, so only lines are read.

use super::model::ManifestTime;

/// The kind of CRDs.
pub const CRD: &str = "CustomResourceDefinition";
/// Kubernetes' kinds whose objects need no other object, and which pods may need to start.
const PASSIVE: [&str; 15] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    CRD,
    "LimitRange",
    "Namespace",
    "NetworkPolicy",
    "PersistentVolumeClaim",
    "PriorityClass",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "ServiceAccount",
    "StorageClass",
];
/// The annotation that makes an object a Helm hook, and the start of those that belong to it.
const HOOK: &str = "helm.sh/hook";

/// Returns `apiVersion` and `kind` of the objects.
pub fn kinds(template: &str) -> Vec<(&str, &str)> {
    let mut version = "";
    let mut found = Vec::new();
    for line in template.lines() {
        if line.starts_with("---") {
            version = "";
        } else if let Some(text) = line.strip_prefix("apiVersion:") {
            version = text.trim();
        } else if let Some(kind) = line.strip_prefix("kind:") {
            found.push((version, kind.trim()));
        }
    }
    found
}

/// Returns the namespaces that objects name literally.
pub fn namespaces(template: &str) -> Vec<&str> {
    let named = template.lines().filter_map(|line| line.strip_prefix("  namespace:"));
    named
        .map(|text| text.trim().trim_matches(['"', '\'']))
        .filter(|text| !text.is_empty() && !text.contains("{{"))
        .collect()
}

/// Returns whether the template contains only CRDs, and no actions.
pub fn is_crds(template: &str) -> bool {
    let kinds = kinds(template);
    !template.contains("{{") && !kinds.is_empty() && kinds.iter().all(|(_, kind)| *kind == CRD)
}

/// Returns when the objects of a manifest file of AICR are created. AICR applies a file before and
/// after the component's chart, and ignores objects of kinds that do not exist yet.
pub fn time_of(template: &str) -> ManifestTime {
    let kinds = kinds(template);
    if !kinds.is_empty() && kinds.iter().all(|(_, kind)| PASSIVE.contains(kind)) {
        ManifestTime::Before
    } else {
        ManifestTime::After
    }
}

/// Returns a line with an annotation of a Helm hook that a bundle cannot remove, because it is not
/// on a line of its own. Bundles remove these annotations: AICR does not use Helm for manifest
/// files, so they have no effect there.
pub fn fixed_hook(template: &str) -> Option<&str> {
    template.lines().map(str::trim).find(|line| {
        let bare = line.trim_start_matches(['"', '\'']);
        line.contains(HOOK) && !line.starts_with('#') && !bare.starts_with(HOOK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_their_lines() {
        let text = "{{- if .Values.a }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: 'a'\ndata:\n  x: |\n    kind: Secret\n---\nkind: {{ .Values.b }}\nmetadata:\n  namespace: {{ .Release.Namespace }}\n";
        assert_eq!(kinds(text), [("v1", "ConfigMap"), ("", "{{ .Values.b }}")]);
        assert_eq!(namespaces(text), ["a"]);
    }

    #[test]
    fn passive_objects_come_before_the_chart() {
        let passive = "apiVersion: v1\nkind: ResourceQuota\n---\napiVersion: v1\nkind: ConfigMap\n";
        assert_eq!(time_of(passive), ManifestTime::Before);
        for text in ["", "apiVersion: v1\nkind: Pod\n", &format!("{passive}---\nkind: Gateway\n")] {
            assert_eq!(time_of(text), ManifestTime::After, "{text}");
        }
    }

    #[test]
    fn only_plain_crds_are_crds() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n";
        assert!(is_crds(&format!("{crd}---\n{crd}")));
        for text in ["", &format!("{crd}---\nkind: ConfigMap\n"), &format!("{crd}{{{{ .x }}}}\n")] {
            assert!(!is_crds(text), "{text}");
        }
    }

    #[test]
    fn hook_annotations_have_lines_of_their_own() {
        let line = "    \"helm.sh/hook\": post-install\n    helm.sh/hook-weight: \"5\"\n  # helm.sh/hook\n";
        assert_eq!(fixed_hook(line), None);
        let flow = "  annotations: {helm.sh/hook: post-install}";
        assert_eq!(fixed_hook(flow), Some(flow.trim()));
    }
}
