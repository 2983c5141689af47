//! Charts with the names, versions, values and CRDs of the vendors' charts, and with templates for
//! the stand-ins.
//!
//! Values and CRDs are the vendors' files from `bundles/components`. The templates in `charts/`
//! belong to this project.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::harness::helm::Helm;
use crate::harness::repository::repository;

/// A chart: name, version, templates, and the directory of `bundles/components` with its values and
/// CRDs.
struct Chart {
    name: &'static str,
    version: &'static str,
    templates: &'static [(&'static str, &'static str)],
    component: Option<&'static str>,
}

const OPERATOR: &[(&str, &str)] = &[
    ("operator.yaml", include_str!("charts/gpu-operator/operator.yaml")),
    ("cluster-policy.yaml", include_str!("charts/gpu-operator/cluster-policy.yaml")),
];
const DRA: &[(&str, &str)] =
    &[("kubelet-plugin.yaml", include_str!("charts/nvidia-dra-driver-gpu/kubelet-plugin.yaml"))];
const DEPLOYMENT: &[(&str, &str)] = &[("deployment.yaml", include_str!("charts/deployment.yaml"))];
const NETWORK: &[(&str, &str)] = &[
    ("deployment.yaml", include_str!("charts/deployment.yaml")),
    ("nic-cluster-policy.yaml", include_str!("charts/network-operator/nic-cluster-policy.yaml")),
];

const CHARTS: &[Chart] = &[
    Chart {
        name: "gpu-operator",
        version: "v25.10.1",
        templates: OPERATOR,
        component: Some("gpu-operator/v25.10.1"),
    },
    Chart {
        name: "gpu-operator",
        version: "v26.3.1",
        templates: OPERATOR,
        component: Some("gpu-operator/v26.3.1"),
    },
    Chart {
        name: "gpu-operator",
        version: "v26.7.0",
        templates: OPERATOR,
        component: Some("gpu-operator/v26.7.0"),
    },
    Chart {
        name: "nvidia-dra-driver-gpu",
        version: "25.12.0",
        templates: DRA,
        component: Some("nvidia-dra-driver-gpu/25.12.0"),
    },
    Chart {
        name: "network-operator",
        version: "24.7.1",
        templates: NETWORK,
        component: Some("network-operator/24.7.1"),
    },
    Chart {
        name: "network-operator",
        version: "26.4.1",
        templates: DEPLOYMENT,
        component: Some("network-operator/26.4.1"),
    },
    Chart {
        name: "node-feature-discovery",
        version: "0.19.0",
        templates: DEPLOYMENT,
        component: Some("node-feature-discovery/0.19.0"),
    },
    Chart { name: "cert-manager", version: "v1.17.2", templates: DEPLOYMENT, component: None },
];

/// Creates a chart repository in `directory`.
pub(super) async fn package(helm: &Helm, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory)?;
    for chart in CHARTS {
        let source = write(chart, directory)?;
        let source = source.display().to_string();
        helm.ok(&["package", &source, "--destination", &directory.display().to_string()]).await?;
    }
    helm.ok(&["repo", "index", &directory.display().to_string()]).await?;
    Ok(())
}

fn write(chart: &Chart, directory: &Path) -> Result<PathBuf> {
    let source = directory.join("source").join(chart.version).join(chart.name);
    fs::create_dir_all(source.join("templates"))?;
    let Chart { name, version, .. } = chart;
    fs::write(
        source.join("Chart.yaml"),
        format!("apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: {version}\n"),
    )?;
    for (file, text) in chart.templates {
        fs::write(source.join("templates").join(file), text)?;
    }
    if let Some(component) = chart.component {
        let component = repository("bundles/components").join(component);
        let values = component.join("values.yaml");
        fs::copy(&values, source.join("values.yaml"))
            .with_context(|| format!("copying {}", values.display()))?;
        fs::create_dir_all(source.join("crds"))?;
        for crd in fs::read_dir(component.join("crds"))? {
            let crd = crd?;
            // CRDs of unused subcharts are in separate directories.
            if crd.file_type()?.is_dir() {
                continue;
            }
            fs::copy(crd.path(), source.join("crds").join(crd.file_name()))?;
        }
    }
    Ok(source)
}
