//! `gpu-rollout device-plugin check` as people meet it.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use assert_cmd::Command;

/// Runs the command on a file and returns everything that it said.
fn run(arguments: &[&str], text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file.yaml"), text).unwrap();
    let mut program = Command::cargo_bin("gpu-rollout").unwrap();
    let output = program
        .args(["device-plugin", "check"])
        .args(arguments)
        .current_dir(&folder)
        .write_stdin(text)
        .output()
        .unwrap();
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
    snapshot!("device-plugin-file", run(&["file.yaml"], SHARED));
    snapshot!(
        "device-plugin-chart",
        run(&["file.yaml", "--chart", "gpu-operator", "--env", "MIG_STRATEGY=mixed"], SHARED)
    );
    snapshot!(
        "device-plugin-json",
        run(
            &["-", "--chart", "nvidia-device-plugin", "--plugin-version", "v0.19.3", "-o", "json"],
            SHARED
        )
    );
    snapshot!(
        "device-plugin-refused",
        run(&["file.yaml", "-o", "json"], &SHARED.replace('4', "1"))
    );
    snapshot!("device-plugin-newer", run(&["file.yaml", "--plugin-version", "0.21.0"], SHARED));
    snapshot!(
        "device-plugin-default-of-a-file",
        run(&["file.yaml", "--default", "shared"], SHARED)
    );
}

#[test]
fn a_config_map() {
    let good = CONFIG_MAP.replace("Strategi", "Strategy");
    snapshot!("device-plugin-map", run(&["file.yaml", "--chart", "nvidia-device-plugin"], &good));
    snapshot!(
        "device-plugin-map-operator",
        run(&["file.yaml", "--chart", "gpu-operator"], &good.replace("mixed", "single"))
    );
    snapshot!(
        "device-plugin-map-default",
        run(&["file.yaml", "--chart", "gpu-operator", "--default", "b100"], &good)
    );
    snapshot!("device-plugin-map-bad", run(&["file.yaml", "-o", "json"], CONFIG_MAP));
    let unusable = good.replace("a100:", "'-a':").replace("default:", "b:") + "binaryData: {}\n";
    snapshot!(
        "device-plugin-map-names",
        run(&["file.yaml", "--chart", "nvidia-device-plugin"], &unusable)
    );
}

#[test]
fn what_is_no_configuration() {
    snapshot!(
        "device-plugin-other-kind",
        run(&["file.yaml"], "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\n")
    );
    snapshot!("device-plugin-missing", run(&["other.yaml"], ""));
    snapshot!("device-plugin-old", run(&["file.yaml", "--plugin-version", "0.14.1"], SHARED));
    snapshot!("device-plugin-environment", run(&["file.yaml", "--env", "MIG_STRATEGY"], SHARED));
}
