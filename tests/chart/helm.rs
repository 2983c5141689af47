//! Runs real Helm on the hook chart, and parses its output.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use contract::names::SETTINGS_ENV;
use contract::settings::Settings;
use serde_json::Value;

/// Returns the path of Helm: `GPU_ROLLOUT_HELM`, or the pinned one of the tests.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(path) = std::env::var_os("GPU_ROLLOUT_HELM") {
            return path.into();
        }
        let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/build.sh"))
            .arg("helm4")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()).join("helm4")
    })
}

/// The server's version. The default of a Helm that is built from its Go module is an old one.
const SERVER: [&str; 2] = ["--kube-version", "1.34.0"];

/// Runs Helm with the chart's path in place of `CHART`.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/gpu-rollout");
    let arguments =
        arguments.iter().map(|argument| if *argument == "CHART" { chart } else { argument });
    Command::new(program()).args(arguments).output().unwrap()
}

/// Returns the output of `helm template` for release `post` in namespace `gpu-operator`.
pub(crate) fn template(more: &[&str]) -> Objects {
    template_as("post", "gpu-operator", more)
}

/// Returns the output of `helm template` for a release.
pub(crate) fn template_as(release: &str, namespace: &str, more: &[&str]) -> Objects {
    let output =
        run(&[&["template", release, "CHART", "--namespace", namespace], &SERVER[..], more]
            .concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Objects(serde_yaml::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap())
}

/// Returns Helm's error for values that the chart rejects.
pub(crate) fn refusal(more: &[&str]) -> String {
    let output =
        run(&[&["template", "post", "CHART", "--namespace", "gpu-operator"], &SERVER[..], more]
            .concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "helm accepted {more:?}");
    message
}

/// Creates a temporary values file, which is deleted when dropped.
pub(crate) fn values(text: &str) -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file.into_temp_path()
}

/// Rendered objects.
pub(crate) struct Objects(pub(crate) Vec<Value>);

impl Objects {
    /// Returns all objects of a kind.
    pub(crate) fn kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |object| object["kind"] == kind)
    }

    /// Returns the only Job.
    pub(crate) fn job(&self) -> &Value {
        let jobs: Vec<&Value> = self.kind("Job").collect();
        assert_eq!(jobs.len(), 1);
        jobs[0]
    }

    /// Returns the spec of the Job's pod.
    pub(crate) fn pod(&self) -> &Value {
        &self.job()["spec"]["template"]["spec"]
    }

    /// Returns the trigger ConfigMap.
    pub(crate) fn trigger(&self) -> &Value {
        self.kind("ConfigMap")
            .find(|map| map["metadata"]["name"].as_str().unwrap().ends_with("-trigger"))
            .unwrap()
    }

    /// Returns the trigger digest.
    pub(crate) fn digest(&self) -> &str {
        self.trigger()["data"]["digest"].as_str().unwrap()
    }

    /// Returns the text of the settings in the Job's environment.
    pub(crate) fn settings_text(&self) -> &str {
        let environment = self.pod()["containers"][0]["env"].as_array().unwrap();
        environment.iter().find(|variable| variable["name"] == SETTINGS_ENV).unwrap()["value"]
            .as_str()
            .unwrap()
    }

    /// Returns the settings, parsed as the program does.
    pub(crate) fn settings(&self) -> Settings {
        serde_json::from_str(self.settings_text()).unwrap()
    }
}
