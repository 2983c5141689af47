//! Renders hooks from the files of each deployer: runs real Helm with their charts, values files,
//! names and namespaces.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use deployer::Deployer;
use serde_json::Value;
use tempfile::TempDir;

use super::tool;

/// A bundle for one deployer, with the Helm that this deployer runs.
pub(crate) struct Form {
    deployer: Deployer,
    helm_name: &'static str,
    helm: PathBuf,
    bundle: PathBuf,
    scratch: TempDir,
}

/// A local chart as a deployer installs it.
#[derive(Debug)]
struct Install {
    release: String,
    namespace: String,
    chart: PathBuf,
    values: Vec<PathBuf>,
}

impl fmt::Display for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} with {}", self.deployer, self.helm_name)
    }
}

impl Form {
    pub(crate) fn new(deployer: Deployer, helm_name: &'static str, bundle: &Path) -> Self {
        Self {
            deployer,
            helm_name,
            helm: tool(helm_name),
            bundle: bundle.to_owned(),
            scratch: tempfile::tempdir().unwrap(),
        }
    }

    /// The digests in the trigger ConfigMaps, by release.
    pub(crate) fn digests(&self) -> BTreeMap<String, String> {
        let objects = match self.deployer.name {
            "helm" => self.template(&self.of_deploy_script()),
            "helmfile" => self.of_helmfile(),
            "flux" => self.template(&self.of_kustomization()),
            "argocd" => self.template(&self.of_applications(&self.applications())),
            "argocd-helm" => self.template(&self.of_applications(&self.umbrella())),
            other => panic!("nothing here reads the files of {other}"),
        };
        let mut digests = BTreeMap::new();
        for object in objects.iter().filter(|object| object["kind"] == "ConfigMap") {
            let (metadata, digest) = (&object["metadata"], &object["data"]["digest"]);
            if let Some(release) = text(&metadata["name"]).strip_suffix("-trigger") {
                // The namespace must also be the same with every deployer.
                digests.insert(
                    release.to_owned(),
                    format!("{} in {}", text(digest), text(&metadata["namespace"])),
                );
            }
        }
        digests
    }

    /// Renders the charts that get values with Helm. A hook without values is missing, and the
    /// comparison finds it.
    fn template(&self, installs: &[Install]) -> Vec<Value> {
        let with_values = installs.iter().filter(|install| !install.values.is_empty());
        let made = with_values.flat_map(|install| {
            let mut command = Command::new(&self.helm);
            command
                .args(["template", &install.release])
                .arg(&install.chart)
                .args(["--namespace", &install.namespace]);
            command.args(["--kube-version", "1.34.0"]);
            for file in &install.values {
                command.arg("--values").arg(file);
            }
            documents(&mut command)
        });
        made.collect()
    }

    /// The commands that `deploy.sh` says it would run.
    fn of_deploy_script(&self) -> Vec<Install> {
        let mut command = Command::new("sh");
        let said = output(
            command.arg(self.bundle.join("deploy.sh")).arg("--dry-run").env("HELM", &self.helm),
        );
        let commands = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let commands = commands.filter(|words| words.first() == Some(&self.helm.to_str().unwrap()));
        let installs = commands.map(|words| {
            assert_eq!(words[1..3], ["upgrade", "--install"], "{words:?}");
            let after =
                |flag| words.windows(2).filter(move |pair| pair[0] == flag).map(|pair| pair[1]);
            Install {
                release: words[3].to_owned(),
                namespace: after("--namespace").next().unwrap().to_owned(),
                chart: words[4].into(),
                values: after("--values").map(PathBuf::from).collect(),
            }
        });
        installs.filter(|install| install.chart.is_absolute()).collect()
    }

    /// Renders with helmfile itself.
    fn of_helmfile(&self) -> Vec<Value> {
        let mut command = Command::new(tool("helmfile"));
        command.current_dir(&self.bundle).arg("--helm-binary").arg(&self.helm);
        command.args([
            "--selector",
            "kind=hook",
            "template",
            "--skip-deps",
            "--args",
            "--kube-version=1.34.0",
        ]);
        for variable in
            ["HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HELMFILE_CACHE_HOME"]
        {
            command.env(variable, self.scratch.path().join(variable));
        }
        documents(&mut command)
    }

    /// The HelmReleases after Kustomize, with the ConfigMaps that they take their values from.
    fn of_kustomization(&self) -> Vec<Install> {
        let objects = documents(Command::new(tool("kustomize")).arg("build").arg(&self.bundle));
        let of_kind =
            |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
        let mut maps = BTreeMap::new();
        for map in of_kind("ConfigMap") {
            let name = text(&map["metadata"]["name"]);
            let path = self.scratch.path().join(name);
            // What is not read as values has no such key.
            fs::write(&path, map["data"]["values.yaml"].as_str().unwrap_or_default()).unwrap();
            maps.insert(name, path);
        }
        let local = of_kind("HelmRelease").map(|object| &object["spec"]);
        let local =
            local.filter(|spec| spec["chart"]["spec"]["sourceRef"]["kind"] == "GitRepository");
        let installs = local.map(|spec| {
            let references = spec["valuesFrom"].as_array().into_iter().flatten();
            Install {
                release: text(&spec["releaseName"]).to_owned(),
                namespace: text(&spec["targetNamespace"]).to_owned(),
                chart: self
                    .in_bundle(text(&spec["chart"]["spec"]["chart"]).strip_prefix("./").unwrap()),
                values: references
                    .map(|reference| maps[text(&reference["name"])].clone())
                    .collect(),
            }
        });
        installs.collect()
    }

    /// The Applications in the folder that the root Application names.
    fn applications(&self) -> Vec<Value> {
        let read =
            |path: &Path| -> Value { yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
        let root = read(&self.bundle.join("root.yaml"));
        let folder = fs::read_dir(self.in_bundle(text(&root["spec"]["source"]["path"]))).unwrap();
        folder.map(|entry| read(&entry.unwrap().path())).collect()
    }

    /// The Applications that Helm makes of the umbrella chart.
    fn umbrella(&self) -> Vec<Value> {
        let mut command = Command::new(&self.helm);
        command.args(["template", "umbrella"]).arg(&self.bundle).args(["--namespace", "argocd"]);
        command
            .args(["--set=repoURL=https://git.example.com/fleet.git", "--set=targetRevision=main"]);
        command.arg(format!("--set=path={}", self.path_in_repository()));
        documents(&mut command)
    }

    fn of_applications(&self, objects: &[Value]) -> Vec<Install> {
        let applications = objects
            .iter()
            .filter(|object| object["kind"] == "Application")
            .map(|object| &object["spec"]);
        // Several sources are a chart of the vendor and its values.
        let local = applications.filter(|spec| spec["source"]["path"].is_string());
        let installs = local.map(|spec| {
            let (chart, helm) =
                (self.in_bundle(text(&spec["source"]["path"])), &spec["source"]["helm"]);
            let files = helm["valueFiles"].as_array().into_iter().flatten();
            Install {
                release: text(&helm["releaseName"]).to_owned(),
                namespace: text(&spec["destination"]["namespace"]).to_owned(),
                values: files.map(|file| chart.join(text(file))).collect(),
                chart,
            }
        });
        installs.collect()
    }

    fn path_in_repository(&self) -> String {
        format!("bundles/edits/{}", self.deployer)
    }

    /// Returns the local path of a path in the repository.
    fn in_bundle(&self, path: &str) -> PathBuf {
        self.bundle
            .join(path.strip_prefix(&self.path_in_repository()).unwrap().trim_start_matches('/'))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

/// What a program prints.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn documents(command: &mut Command) -> Vec<Value> {
    serde_yaml::from_multiple(&output(command)).unwrap()
}
