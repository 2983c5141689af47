//! `gpu-rollout device-plugin check` as people meet it.

use assert_cmd::Command;

/// Runs the command on a file and returns everything that it said.
fn run(arguments: &[&str], text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file.yaml"), text).unwrap();
    let mut program = Command::cargo_bin("gpu-rollout").unwrap();
    let output = program.args(["device-plugin", "check"]).args(arguments).current_dir(&folder).write_stdin(text).output().unwrap();
    let code = output.status.code().unwrap();
    format!(
        "exit {code}\n--- output\n{}--- errors\n{}",
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap()
    )
}

macro_rules! snapshot {
    ($name:literal, $text:expr) => {
        insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!($name, $text);
        });
    };
}

const SHARED: &str = "version: v1
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: 4
";

const CONFIG_MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: plugin, namespace: gpu-operator}
data:
  default: |
    version: v1
  a100: |
    version: v1
    flags:
      migStrategi: mixed
";

#[test]
fn a_configuration() {
    snapshot!("command-file", run(&["file.yaml"], SHARED));
    snapshot!("command-chart", run(&["file.yaml", "--chart", "gpu-operator", "--env", "MIG_STRATEGY=mixed"], SHARED));
    snapshot!("command-json", run(&["-", "--chart", "nvidia-device-plugin", "--plugin-version", "v0.19.3", "-o", "json"], SHARED));
    snapshot!("command-refused", run(&["file.yaml", "-o", "json"], &SHARED.replace('4', "1")));
    snapshot!("command-newer", run(&["file.yaml", "--plugin-version", "0.21.0"], SHARED));
    snapshot!("command-default-of-a-file", run(&["file.yaml", "--default", "shared"], SHARED));
}

#[test]
fn a_config_map() {
    let good = CONFIG_MAP.replace("Strategi", "Strategy");
    snapshot!("command-map", run(&["file.yaml", "--chart", "nvidia-device-plugin"], &good));
    snapshot!("command-map-operator", run(&["file.yaml", "--chart", "gpu-operator"], &good.replace("mixed", "single")));
    snapshot!("command-map-default", run(&["file.yaml", "--chart", "gpu-operator", "--default", "b100"], &good));
    snapshot!("command-map-bad", run(&["file.yaml", "-o", "json"], CONFIG_MAP));
    let unusable = good.replace("a100:", "'-a':").replace("default:", "b:") + "binaryData: {}\n";
    snapshot!("command-map-names", run(&["file.yaml", "--chart", "nvidia-device-plugin"], &unusable));
}

#[test]
fn what_is_no_configuration() {
    snapshot!("command-other-kind", run(&["file.yaml"], "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\n"));
    snapshot!("command-missing", run(&["other.yaml"], ""));
    snapshot!("command-old", run(&["file.yaml", "--plugin-version", "0.14.1"], SHARED));
    snapshot!("command-environment", run(&["file.yaml", "--env", "MIG_STRATEGY"], SHARED));
}
