//! The embedded hook chart, which a bundle copies into each hook release.

use std::sync::LazyLock;

use contract::file_content::FileContent;

/// Path inside the chart and content of every file, sorted by path.
pub const FILES: &[(&str, &str)] = &[
    (".helmignore", include_str!("../../../charts/gpu-rollout/.helmignore")),
    ("Chart.yaml", include_str!("../../../charts/gpu-rollout/Chart.yaml")),
    ("README.md", include_str!("../../../charts/gpu-rollout/README.md")),
    ("files/alerts.yaml", include_str!("../../../charts/gpu-rollout/files/alerts.yaml")),
    ("files/contract.yaml", include_str!("../../../charts/gpu-rollout/files/contract.yaml")),
    ("files/dashboard.json", include_str!("../../../charts/gpu-rollout/files/dashboard.json")),
    (
        "files/node-changes.yaml",
        include_str!("../../../charts/gpu-rollout/files/node-changes.yaml"),
    ),
    ("files/rights.yaml", include_str!("../../../charts/gpu-rollout/files/rights.yaml")),
    ("templates/NOTES.txt", include_str!("../../../charts/gpu-rollout/templates/NOTES.txt")),
    (
        "templates/_acceptance.tpl",
        include_str!("../../../charts/gpu-rollout/templates/_acceptance.tpl"),
    ),
    (
        "templates/_admission.tpl",
        include_str!("../../../charts/gpu-rollout/templates/_admission.tpl"),
    ),
    ("templates/_checks.tpl", include_str!("../../../charts/gpu-rollout/templates/_checks.tpl")),
    ("templates/_helpers.tpl", include_str!("../../../charts/gpu-rollout/templates/_helpers.tpl")),
    ("templates/_pod.tpl", include_str!("../../../charts/gpu-rollout/templates/_pod.tpl")),
    ("templates/_rights.tpl", include_str!("../../../charts/gpu-rollout/templates/_rights.tpl")),
    (
        "templates/_settings.tpl",
        include_str!("../../../charts/gpu-rollout/templates/_settings.tpl"),
    ),
    (
        "templates/acceptance.yaml",
        include_str!("../../../charts/gpu-rollout/templates/acceptance.yaml"),
    ),
    (
        "templates/admission-policy.yaml",
        include_str!("../../../charts/gpu-rollout/templates/admission-policy.yaml"),
    ),
    ("templates/job.yaml", include_str!("../../../charts/gpu-rollout/templates/job.yaml")),
    (
        "templates/monitoring.yaml",
        include_str!("../../../charts/gpu-rollout/templates/monitoring.yaml"),
    ),
    (
        "templates/network-policy.yaml",
        include_str!("../../../charts/gpu-rollout/templates/network-policy.yaml"),
    ),
    ("templates/record.yaml", include_str!("../../../charts/gpu-rollout/templates/record.yaml")),
    ("templates/rights.yaml", include_str!("../../../charts/gpu-rollout/templates/rights.yaml")),
    (
        "templates/service-account.yaml",
        include_str!("../../../charts/gpu-rollout/templates/service-account.yaml"),
    ),
    ("templates/trigger.yaml", include_str!("../../../charts/gpu-rollout/templates/trigger.yaml")),
    ("values.schema.json", include_str!("../../../charts/gpu-rollout/values.schema.json")),
    ("values.yaml", include_str!("../../../charts/gpu-rollout/values.yaml")),
];

/// Returns path inside the chart and content of every file, sorted by path.
pub fn contents() -> &'static [(&'static str, FileContent)] {
    static CONTENTS: LazyLock<Vec<(&str, FileContent)>> =
        LazyLock::new(|| FILES.iter().map(|(path, text)| (*path, (*text).into())).collect());
    &CONTENTS
}

/// Returns the repository of the chart's default image (`rollout.image.repository`). Only in a
/// release it names a registry: scripts/release/stamp.sh writes the image of the release into the
/// chart before the program is built.
pub fn image_repository() -> &'static str {
    let values = FILES.iter().find(|(path, _)| *path == "values.yaml");
    let mut lines = values.into_iter().flat_map(|(_, text)| text.lines());
    let repository = lines.find_map(|line| line.strip_prefix("    repository: "));
    repository.unwrap_or_default().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Paths of all files below a directory, relative to it.
    fn files(root: &Path, directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn image_repository_is_the_value_of_the_chart() {
        let (_, text) = FILES.iter().find(|(path, _)| *path == "values.yaml").unwrap();
        let values: serde_json::Value = yaml::from_str(text).unwrap();
        assert_eq!(image_repository(), values["rollout"]["image"]["repository"]);
    }

    #[test]
    fn every_file_of_the_chart_is_embedded() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/gpu-rollout");
        let mut found = Vec::new();
        files(&root, &root, &mut found);
        found.sort();
        let embedded: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(embedded, found);
    }
}
