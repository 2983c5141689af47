//! `gpu-rollout bundle` as a process: exit codes, standard output, standard error, and no partly
//! written files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

/// A separate directory in which the program runs.
pub(crate) struct Scene(tempfile::TempDir);

impl Scene {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        Command::cargo_bin("gpu-rollout")
            .unwrap()
            .current_dir(self.path())
            .env("NO_COLOR", "1")
            .args(arguments.split(' '))
            .output()
            .unwrap()
    }

    pub(crate) fn seen(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let text = |bytes: &[u8]| {
            let real = fs::canonicalize(self.path()).unwrap();
            std::str::from_utf8(bytes).unwrap().replace(real.to_str().unwrap(), "DIRECTORY")
        };
        format!(
            "$ gpu-rollout {arguments}\nexit code: {}\n--- stdout\n{}--- stderr\n{}",
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr)
        )
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

macro_rules! snapshot {
    ($name:expr, $text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!($name, $text));
    }};
}
pub(crate) use snapshot;

#[test]
fn render_then_verify_then_edit() {
    let scene = Scene::new();
    let mut seen = scene.seen("bundle render -r eks-gb200-training -d helm -o out");
    seen += &scene.seen("bundle verify out");
    fs::write(scene.path().join("out/notes.md"), "mine").unwrap();
    seen += &scene.seen("bundle verify out");
    seen += &scene.seen("bundle render -r base -d helm -o out");
    let script = scene.path().join("out/deploy.sh");
    fs::write(
        &script,
        fs::read_to_string(&script)
            .unwrap()
            .replace(" v26.7.0 crds-elsewhere", " v26.7.1 crds-elsewhere"),
    )
    .unwrap();
    seen += &scene.seen("bundle verify out");
    seen += &scene.seen("bundle render -r base -d helm -o out --force --set cluster.gpuNodes=8");
    seen += &scene.seen("bundle verify out");
    snapshot!("command-render-verify-edit", seen);
    assert_eq!(scene.names(), ["out"]);
}

#[test]
fn other_bundle_is_replaced_edited_only_by_force() {
    let scene = Scene::new();
    scene.run("bundle render -r kind-dev -d helm -o out");
    let notes = |arguments: &str| {
        let output = scene.run(&format!("bundle render {arguments} -o out"));
        let real = fs::canonicalize(scene.path()).unwrap();
        let said =
            String::from_utf8(output.stderr).unwrap().replace(real.to_str().unwrap(), "DIRECTORY");
        let lines = said.lines().filter(|line| {
            ["replaced", "note: a bundle", "error", "  changed", "hint"]
                .iter()
                .any(|start| line.starts_with(start))
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut seen =
        vec![notes("-r kind-dev -d helm"), notes("-r kind-dev -d helm --set cluster.gpuNodes=3")];
    assert!(
        seen.iter().all(|said| said.lines().count() == 1),
        "the same recipe with another value was reported as another bundle: {seen:?}"
    );
    seen.push(notes("-r base -d helm"));
    seen.push(notes("-r base -d helmfile"));
    let values = scene.path().join("out/004-gpu-operator/values.yaml");
    fs::write(&values, fs::read_to_string(&values).unwrap().replace("580.126.20", "580.173.02"))
        .unwrap();
    seen.push(notes("-r kind-dev -d helmfile"));
    seen.push(notes("-r kind-dev -d helmfile --force"));
    snapshot!("command-another-bundle", seen.join("\n"));
    let output = scene.run("bundle render -r base -d helmfile -o out --format json");
    let entries: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = "replaced the bundle of recipe `kind-dev` for helmfile in `out` with this one of `base` for helmfile";
    assert!(entries[0]["notes"].as_array().unwrap().contains(&expected.into()), "{entries:#}");
}

#[test]
fn bundle_diff_shows_changes_by_release() {
    let scene = Scene::new();
    scene.run("bundle render -r base -d helm -o old");
    scene.run("bundle render -r base -d helm -o same");
    scene.run("bundle render -r eks-gb200-training -d helm -o training");
    scene.run("bundle render -r base -d helm -o new --set components.gpu-operator.version=v26.3.2");
    // A manual edit of values, and a comment, which has no effect.
    let values = scene.path().join("new/004-gpu-operator/values.yaml");
    let text = fs::read_to_string(&values).unwrap();
    fs::write(&values, format!("# mine\n{}", text.replace("580.126.20", "580.173.02"))).unwrap();
    let settings = scene.path().join("same/005-gpu-operator-post/rollout.yaml");
    fs::write(&settings, format!("# mine\n{}", fs::read_to_string(&settings).unwrap())).unwrap();
    let mut seen = scene.seen("bundle diff old same");
    seen += &scene.seen("bundle diff old new");
    seen += &scene.seen("bundle diff old new -o json");
    seen += &scene.seen("bundle diff old training");
    seen += &scene.seen("bundle diff training old");
    seen += &scene.seen("bundle diff old nowhere");
    snapshot!("command-diff", seen);
}

#[test]
fn the_images_of_a_bundle_are_listed() {
    let scene = Scene::new();
    scene.run("bundle render -r eks-gb200-training -d helm -o out --hook-image registry.example.com/tools/gpu-rollout:0.1.0");
    let mut seen = scene.seen("bundle images out");
    seen += &scene.seen("bundle images out -o list");
    seen += &scene.seen("bundle images out -o list --node-os ubuntu22.04 --node-os rhel9");
    seen += &scene.seen("bundle images nowhere");
    snapshot!("command-images", seen);
    let json = scene.run("bundle images out -o json --all");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert!(
        json["images"]
            .as_array()
            .unwrap()
            .iter()
            .any(|image| image["place"] == "vgpuDeviceManager"),
        "{json}"
    );
}

/// Returns the lines of `bundle images -o list` for the bundle `out`.
fn image_list(scene: &Scene, more: &str) -> Vec<String> {
    let output = scene.run(&format!("bundle images out -o list --node-os ubuntu22.04{more}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The NicClusterPolicy's images have their repository and version in `global`.
#[test]
fn images_of_the_network_operator_are_exact() {
    let scene = Scene::new();
    scene.run("bundle render -r rdma -d helm -o out --set cluster.gpuNodes=4");
    let images = image_list(&scene, "");
    let names: Vec<&str> =
        images.iter().filter_map(|image| image.strip_prefix("nvcr.io/nvidia/mellanox/")).collect();
    let mut own: Vec<&str> =
        names.iter().filter_map(|name| name.strip_suffix(":network-operator-v26.4.1")).collect();
    own.sort_unstable();
    assert_eq!(
        own,
        [
            "k8s-rdma-shared-dev-plugin",
            "multus-cni",
            "network-operator-init-container",
            "node-feature-discovery",
            "nvidia-k8s-ipam",
            "plugins",
        ],
        "{images:#?}"
    );
    let driver = names.iter().find(|name| name.starts_with("doca-driver:")).unwrap();
    assert!(driver.ends_with("-ubuntu22.04-amd64"), "{driver}");
    assert!(!images.iter().any(|image| image.contains("/mellanox:")), "{images:#?}");
}

#[test]
fn precompiled_drivers_are_listed_by_branch_and_kernel() {
    let scene = Scene::new();
    scene.run(
        "bundle render -r base -d helm -o out --set cluster.gpuNodes=4 --set rollout.gpuDriver.version=580 --set components.gpu-operator.values.driver.usePrecompiled=true",
    );
    let images = image_list(&scene, " --node-kernel 6.8.0-60-generic");
    let driver = "nvcr.io/nvidia/driver:580-6.8.0-60-generic-ubuntu22.04";
    assert!(images.iter().any(|image| image == driver), "{images:#?}");
}

#[test]
fn names_of_pull_secrets_are_checked() {
    for (name, code) in [("A_B", 2), ("../x", 2), ("", 2), ("pull.one", 0)] {
        let scene = Scene::new();
        let output = scene.run(&format!(
            "bundle render -r base -d helm -o out --set cluster.gpuNodes=4 --image-pull-secret={name}"
        ));
        assert_eq!(output.status.code(), Some(code), "{name:?}");
    }
}

/// A tool that mirrors images reads one reference per line.
#[test]
fn line_feed_in_a_value_adds_no_image() {
    let scene = Scene::new();
    scene.run("bundle render -r base -d helm -o out");
    let values = scene.path().join("out/004-gpu-operator/values.yaml");
    let text = fs::read_to_string(&values).unwrap();
    let hostile = "driver:\n  image: \"driver\\nevil.example/image:1\"\n";
    let edited = text.replacen("driver:\n", hostile, 1);
    assert_ne!(edited, text);
    fs::write(&values, edited).unwrap();
    let output = scene.run("bundle images out -o list --node-os ubuntu22.04");
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(lines.contains("evil.example/image:1"), "{lines}");
    assert!(lines.lines().all(|line| !line.starts_with("evil.example")), "{lines}");
}

#[test]
fn images_can_come_from_a_mirror() {
    let scene = Scene::new();
    let mirrors = "--registry-mirror nvcr.io=registry.example.com/nvcr --image-pull-secret pull --hook-image registry.example.com/gpu-rollout:1";
    let mut seen =
        scene.seen(&format!("bundle render -r eks-gb200-training -d helm -o out {mirrors}"));
    seen += &scene.seen("bundle images out -o list --node-os ubuntu22.04");
    seen += &scene.seen(
        "bundle render -r base -d helm -o other --registry-mirror https://registry.example.com",
    );
    let values = fs::read_to_string(scene.path().join("out/004-gpu-operator/values.yaml")).unwrap();
    snapshot!("command-mirror", seen + &values);
}

#[test]
fn nodes_can_be_chosen_for_all_components() {
    let scene = Scene::new();
    let own = r#"--set components.aws-efa.values.nodeSelector.pool=mine --set components.gpu-operator.nodeScheduling.accelerated.tolerations=[{"key":"mine","operator":"Exists"}]"#;
    let nodes = "--system-node-selector pool=system --system-node-toleration dedicated=system:NoSchedule --accelerated-node-selector example.com/gpu=yes --accelerated-node-toleration dedicated=gpu --accelerated-node-toleration spot:NoSchedule";
    let mut seen =
        scene.seen(&format!("bundle render -r eks-gb200-training -d helm -o out {own} {nodes}"));
    for (file, parts) in [
        ("bundle-info.yaml", &["nodeScheduling"][..]),
        ("004-gpu-operator/values.yaml", &["operator", "daemonsets", "node-feature-discovery"]),
        ("005-gpu-operator-post/rollout.yaml", &["rollout"]),
        ("006-aws-efa/values.yaml", &["nodeSelector", "tolerations"]),
        ("008-nvidia-dra-driver-gpu/values.yaml", &["controller", "kubeletPlugin"]),
    ] {
        let text = fs::read_to_string(scene.path().join("out").join(file)).unwrap();
        let values: serde_json::Value = yaml::from_str(&text).unwrap();
        let values = values.get("rollout").unwrap_or(&values);
        for part in parts.iter().map(|part| if *part == "rollout" { "pod" } else { part }) {
            writeln!(seen, "{file}: {part}: {}", values[part]).unwrap();
        }
    }
    assert!(scene.run("bundle verify out").status.success());
    seen += &scene.seen("bundle render -r device-plugin-only -d helm -o alone --system-node-toleration dedicated=system");
    seen += &scene.seen("bundle render -r base -d helm -o none --system-node-selector pool=a --system-node-selector pool=b");
    seen += &scene.seen("bundle render -r base -d helm -o none --accelerated-node-toleration dedicated=gpu:NoShedule");
    snapshot!("command-nodes", seen);
    snapshot!("command-render-help", scene.seen("bundle render --help"));
}

#[test]
fn errors_are_reported_and_nothing_is_written() {
    let scene = Scene::new();
    fs::create_dir(scene.path().join("foreign")).unwrap();
    fs::write(scene.path().join("foreign/thesis.tex"), "years").unwrap();
    fs::write(scene.path().join("file"), "").unwrap();
    let render = |more: &str| scene.seen(&format!("bundle render -d helm {more}"));
    let mut seen = render("-r base -o foreign");
    seen += &render("-r base -o foreign --force");
    seen += &render("-r base -o file");
    seen += &render("-r base -o file/out");
    seen += &render("-r base -o .");
    seen += &render("-r base -o /proc/out");
    seen += &render("-r base -o out --chart-repository nope=https://example.com");
    seen += &render(
        "-r base -o out --set components.gpu-operator.values.driver.upgradePolicy.maxUnavailable=0 --set rollout.gpuDriver.policy.maxUnavailable=null",
    );
    seen += &render("-r base -o out --set rollout.dra.required=true");
    seen += &scene.seen("bundle verify foreign");
    seen += &scene.seen("bundle verify nowhere");
    snapshot!("command-errors", seen);
    assert_eq!(scene.names(), ["file", "foreign"]);
}

#[test]
fn usage_error_has_its_own_exit_code() {
    let scene = Scene::new();
    let mut seen = Vec::new();
    for arguments in [
        "bundle render -r base -d flux -o out",
        "bundle render -r base -d hlem -o out",
        "bundle render -r base -d helm -o out --chart-repository nvidia",
        "bundle render -r base -d helm -o out --chart-repository nvidia=charts",
        "bundle render -r base -d helm -o out --chart-repository nvidia=https://user:word@example.com",
        "bundle render -r base -d helm -o out --chart-repository nvidia=https://a --chart-repository nvidia=https://b",
        "bundle render -r base -d helm -o out --hook-image a:b@sha256:1",
        "bundle render -r base -d flux -o out --repo git@github.com:a/b.git",
        "bundle render -r base -d flux -o out --repo https://a --path a/../b",
        "bundle render -r base -d flux -o out --repo oci://a/b --revision sha256:abc",
        "bundle render -r base -d flux -o out --repo https://a --revision HEAD",
        "bundle render -r base -d flux -o out --repo https://a --revision 0123abc",
        "bundle render -r base -d argocd -o out --repo https://a --revision 0123456789abcdef0123456789abcdef01234567",
        "bundle render -r base -d argocd-helm -o out --repo https://a --revision 0123456789abcdef0123456789abcdef01234567",
        "bundle render -r base -d helm -o out --system-node-selector pool",
        "bundle render -r base -d helm -o out --accelerated-node-selector=-pool=gpu",
        "bundle render -r base -d helm -o out --system-node-toleration a=b/c",
        "bundle render -r base -d helm",
        "bundle verify",
    ] {
        let output = scene.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        seen.push(format!(
            "$ gpu-rollout {arguments}\n{}",
            std::str::from_utf8(&output.stderr).unwrap().lines().next().unwrap()
        ));
    }
    snapshot!("command-usage", seen.join("\n"));
    assert!(scene.names().is_empty());
}

#[test]
fn ambiguous_revision_is_noted_for_flux_only() {
    let scene = Scene::new();
    for (deployer, expected) in [("flux", true), ("argocd", false)] {
        let output = scene.run(&format!(
            "bundle render -r base -d {deployer} -o {deployer} --repo https://a --revision v1.2"
        ));
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            said.contains(
                "treating `v1.2` as a branch; for a tag, write --revision refs/tags/v1.2"
            ),
            expected,
            "{said}"
        );
    }
}

#[test]
fn umbrella_with_known_repository_asks_for_none() {
    let scene = Scene::new();
    let output = scene.run("bundle render -r base -d argocd-helm -o out --repo https://git.example.com/a.git --revision v1 --path x/y");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success()
            && said.contains("helm upgrade --install base out")
            && !said.contains("--set"),
        "{said}"
    );
    let page = fs::read_to_string(scene.path().join("out/README.md")).unwrap();
    for words in [
        "repoURL: \"https://git.example.com/a.git\"",
        "targetRevision: \"v1\"",
        "path: \"x/y\"",
        "folder `x/y`",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for words in ["--set", "valuesObject", "You set its repository"] {
        assert!(!page.contains(words), "{words}");
    }
}

#[test]
fn charts_and_image_can_come_from_elsewhere() {
    let scene = Scene::new();
    let output = scene.run(
        "bundle render -r eks-gb200-training -d helm -o out --chart-repository nvidia=http://127.0.0.1:8080/charts --chart-repository eks-charts=oci://example.com/mirror --chart-repository nfd=/unused --hook-image localhost:5000/hook:test",
    );
    assert!(output.status.success());
    let script = fs::read_to_string(scene.path().join("out/deploy.sh")).unwrap();
    let lines: Vec<&str> = script.lines().filter(|line| line.starts_with("upstream ")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    upstream 004-gpu-operator gpu-operator 600 v26.7.0 crds-elsewhere gpu-operator http://127.0.0.1:8080/charts
    upstream 006-aws-efa kube-system 600 v0.5.3 crds-in-chart oci://example.com/mirror/aws-efa-k8s-device-plugin
    upstream 008-nvidia-dra-driver-gpu nvidia-dra-driver-gpu 600 25.12.0 crds-elsewhere nvidia-dra-driver-gpu http://127.0.0.1:8080/charts
    ");
    let settings =
        fs::read_to_string(scene.path().join("out/005-gpu-operator-post/rollout.yaml")).unwrap();
    assert!(
        settings.contains(
            "image:\n    repository: localhost:5000/hook\n    tag: test\n    digest: \"\"\n"
        ),
        "{settings}"
    );
}

#[test]
fn the_checksums_are_those_of_sha256sum() {
    let scene = Scene::new();
    assert!(scene.run("bundle render -r kind-dev -d helm -o out").status.success());
    let mut check = std::process::Command::new("sha256sum");
    check
        .args(["--check", "--strict", "--quiet", "checksums.txt"])
        .current_dir(scene.path().join("out"));
    let output = check.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn bundle_facts_and_parity_are_reported() {
    let scene = Scene::new();
    let render = |deployer: &str, output: &str| {
        let arguments = format!(
            "bundle render -r kind-dev -d {deployer} -o {output} --repo https://git.example.com/fleet.git"
        );
        let arguments = if deployer == "flux" {
            arguments
        } else {
            arguments.split(" --repo").next().unwrap().to_owned()
        };
        assert!(scene.run(&arguments).status.success(), "{arguments}");
    };
    render("helm", "helm");
    render("flux", "flux");
    let mut seen = scene.seen("bundle parity helm flux");
    let release = scene.path().join("flux/releases/004-gpu-operator-post.yaml");
    fs::write(
        &release,
        fs::read_to_string(&release).unwrap().replace("disableWait: true", "disableWait: false"),
    )
    .unwrap();
    let job = scene.path().join("flux/004-gpu-operator-post/templates/job.yaml");
    fs::write(
        &job,
        fs::read_to_string(&job).unwrap().replace("backoffLimit: 2", "backoffLimit: 6"),
    )
    .unwrap();
    seen += &scene.seen("bundle parity helm flux");
    seen += &scene.seen("bundle parity helm nowhere");
    seen += &scene.seen("bundle parity helm");
    let json = scene.run("bundle parity helm flux -o json");
    let parity: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json.status.code(), &parity["equal"]), (Some(3), &serde_json::json!(false)));
    let facts = scene.run("bundle facts helm -o json");
    let facts: serde_json::Value = serde_json::from_slice(&facts.stdout).unwrap();
    assert_eq!(
        (&facts["deployer"], &facts["releases"]["gpu-operator"]["kind"]),
        (&"helm".into(), &"upstream".into())
    );
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("[0-9a-f]{12}…", "[digest]");
    settings.bind(|| snapshot!("command-parity", seen));
}

#[test]
fn unreachable_sources_for_flux_are_refused() {
    let scene = Scene::new();
    let mut seen = Vec::new();
    for arguments in [
        "bundle render -r base -d flux -o out",
        "bundle render -r base -d flux -o out --repo file:///srv/fleet.git",
        "bundle render -r base -d flux -o out --repo https://git.example.com/a --chart-repository nvidia=/mnt/charts",
    ] {
        let output = scene.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        seen.push(format!(
            "$ gpu-rollout {arguments}\n{}",
            std::str::from_utf8(&output.stderr).unwrap()
        ));
    }
    insta::assert_snapshot!(seen.concat(), @r#"
    $ gpu-rollout bundle render -r base -d flux -o out
    error: deployer `flux` reads the bundle from a repository, and no repository is set
    hint: add --repo URL; also --revision unless it is `main`, and --path unless it is the root
    $ gpu-rollout bundle render -r base -d flux -o out --repo file:///srv/fleet.git
    error: deployer `flux` cannot read the bundle from `file:///srv/fleet.git`: Flux reads it from inside the cluster
    hint: name a repository that the cluster can reach: --repo https://…, ssh://… or oci://…
    $ gpu-rollout bundle render -r base -d flux -o out --repo https://git.example.com/a --chart-repository nvidia=/mnt/charts
    error: deployer `flux` cannot take the chart of gpu-operator from `/mnt/charts/gpu-operator-v26.3.3.tgz`: Flux reads charts from inside the cluster
    hint: serve the charts over https:// or push them to a registry, and name it: --chart-repository NAME=https://… or NAME=oci://…
    "#);
    assert!(scene.names().is_empty());
}
