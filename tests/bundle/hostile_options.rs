//! Hostile texts in every option of `bundle render`.

use clap::CommandFactory as _;
use gpu_rollout::cli;
use serde_json::Value;

use crate::hostile::{PAYLOADS, files, is_helm_template, is_yaml};

/// Each option with a text value, with the prefix and the suffix that make the value valid.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("chart-repository", "nvidia=https://charts.example.com/", ""),
    ("chart-repository", "nvidia=oci://charts.example.com/", ""),
    ("chart-repository", "nvidia=/mnt/", ""),
    ("hook-image", "registry.example.com/", ""),
    ("hook-image", "registry.example.com/hook:", ""),
    ("registry-mirror", "registry.example.com/", ""),
    ("registry-mirror", "nvcr.io=", ".example.com"),
    ("image-pull-secret", "", ""),
    ("system-node-selector", "", "=x"),
    ("system-node-selector", "pool=", ""),
    ("system-node-toleration", "", ""),
    ("system-node-toleration", "pool=", ":NoSchedule"),
    ("accelerated-node-selector", "pool=", ""),
    ("accelerated-node-toleration", "pool=", ""),
    ("repo", "https://git.example.com/", ""),
    ("repo", "ssh://git@git.example.com/", ""),
    ("revision", "", ""),
    ("path", "", ""),
    ("verify-secret", "", ""),
    ("verify-identity", "https://", "=signer"),
    ("verify-identity", "https://accounts.example.com=", ""),
    ("set", "metadata.name=", ""),
    ("set", "components.gpu-operator.version=", ""),
];
/// Options whose values name local files, or come from a fixed list.
const NOT_WRITTEN: [&str; 7] =
    ["recipe", "deployer", "output", "format", "data", "color", "allow-extends"];

/// Regression: messages about wrong addresses repeated their passwords, which then were in the logs
/// of pipelines.
#[test]
fn passwords_in_addresses_are_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    for scheme in ["oci://", "https://", "ftp://", "https:/", ""] {
        for password in ["S3CRET", "S3CRET/S3CRET", "S3CRET'S3CRET S3CRET"] {
            let address = &*format!("{scheme}user:{password}@registry.example.com/a:v1");
            let chart = &*format!("nvidia={address}");
            let mirror = &*format!("nvcr.io={address}");
            let repo = &*format!("--repo={address}");
            for arguments in [
                &["push", "out", address][..],
                &["pull", address, "out"],
                &["pull", "oci://a/b:v1", "out", address],
                &["render", "-r", "base", "-o", "out", "-d", "flux", repo],
                &["render", "-r", "base", "-o", "out", "-d", "helm", "--chart-repository", chart],
                &["render", "-r", "base", "-o", "out", "-d", "helm", "--registry-mirror", mirror],
                &["render", "-r", "base", "-o", "out", "-d", "helm", "--hook-image", address],
            ] {
                let mut command = assert_cmd::Command::cargo_bin("gpu-rollout").unwrap();
                command.current_dir(directory.path()).arg("bundle").args(arguments);
                let output = command.output().unwrap();
                let messages = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(2), "{arguments:?}\n{messages}");
                assert!(!messages.contains("S3CRET"), "{arguments:?}\n{messages}");
            }
        }
    }
}

#[test]
fn hostile_texts_in_options_are_harmless() {
    let command = cli::Cli::command();
    let render = command
        .find_subcommand("bundle")
        .and_then(|bundle| bundle.find_subcommand("render"))
        .unwrap();
    let options = render
        .get_arguments()
        .filter(|argument| argument.get_action().takes_values())
        .filter_map(|argument| argument.get_long());
    let unknown: Vec<&str> = options
        .filter(|name| {
            !NOT_WRITTEN.contains(name) && !OPTIONS.iter().any(|(known, ..)| known == name)
        })
        .collect();
    assert_eq!(unknown, [""; 0], "options without a row in `OPTIONS`");
    let directory = tempfile::tempdir().unwrap();
    let mut problems = Vec::new();
    for (index, (option, before, behind)) in OPTIONS.iter().enumerate() {
        for (number, payload) in PAYLOADS
            .iter()
            .filter(|payload| !payload.contains('\0'))
            .enumerate()
            .skip(index % 3)
            .step_by(3)
        {
            let output = directory.path().join(format!("{index}-{number}"));
            let mut command = assert_cmd::Command::cargo_bin("gpu-rollout").unwrap();
            command.current_dir(directory.path()).args(["bundle", "render", "--recipe", "base"]);
            // A single bundle goes to the place that it has among those of all deployers.
            let (deployer, repository, place) = if option.starts_with("verify-") {
                ("flux", "oci://registry.example.com/fleet", "base/flux")
            } else {
                ("all", "https://git.example.com/fleet.git", "")
            };
            command.args(["--deployer", deployer, "--output"]).arg(output.join(place));
            if *option != "repo" {
                command.arg(format!("--repo={repository}"));
            }
            let result =
                command.arg(format!("--{option}={before}{payload}{behind}")).output().unwrap();
            let said = String::from_utf8_lossy(&result.stderr);
            if !result.status.success() {
                if !said.contains("error")
                    || said.contains("mistake of gpu-rollout")
                    || said.contains("panicked")
                {
                    problems.push(format!("--{option}={before}{payload}{behind}: {said}"));
                }
                continue;
            }
            // CRDs are large copies of catalog files.
            for (name, text) in
                files(&output).into_iter().filter(|(name, _)| !name.contains("-crds/"))
            {
                let plain = text.replace("{{ \"{{\" }}", "").replace("{{ \\\"{{\\\" }}", "");
                let is_executed = payload.starts_with("{{")
                    && plain.contains(payload)
                    && (is_helm_template(&name) || name.contains("helmfile"));
                let is_yaml = is_yaml(&name) && !is_helm_template(&name);
                let reads = !is_yaml
                    || serde_yaml::from_multiple::<Value>(&text).is_ok_and(|documents| {
                        documents.iter().all(|document| {
                            document["kind"] != "Injected" && document["key"] != "injected"
                        })
                    });
                if is_executed || !reads {
                    problems.push(format!("--{option}={before}{payload}{behind}: {name}"));
                }
            }
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems\n{}",
        problems.len(),
        problems.into_iter().take(20).collect::<Vec<_>>().join("\n")
    );
    assert!(!directory.path().join("injected").exists());
}
