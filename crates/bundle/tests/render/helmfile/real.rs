//! Runs helmfile itself, with Helm 3 and Helm 4, on the bundle of every recipe. The vendors' charts
//! are not available here, so charts with the same names and versions replace them, from a
//! repository on loopback. Helm's commands that write to a cluster are only recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bundle::{BundleInput, build, write};
use catalog::{self, hook_chart};
use deployer::layout::{folders, values_of};
use release::catalog::PlanCatalog as _;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, ReleasePlan, plan};
use serde_json::Value;
use tempfile::TempDir;

use crate::render::library;
use crate::render::tools::tool;

/// A fake Helm: records commands that write to a cluster, fails for the release in `failing`, lists
/// no release, and runs Helm for all other commands.
const NOTING_HELM: &str = r#"#!/bin/sh
here=$(dirname "$0")
case $1 in
  upgrade | uninstall | delete)
    # In one piece: helmfile runs several at once.
    printf '%s\n' "$(printf '%s\t' "$@")" >> "$here/calls"
    for word in "$@"; do [ "$word" != "$(cat "$here/failing")" ] || { echo 'Error: UPGRADE FAILED' >&2; exit 1; }; done
    exit 0 ;;
  list) cat "$here/list"; exit 0 ;;
  repo) exit 0 ;;
esac
exec "$(cat "$here/helm")" "$@"
"#;

/// A bundle, stand-in charts, and a helmfile that sees nothing of the user's.
struct Scene {
    directory: TempDir,
    bundle: PathBuf,
    plan: ReleasePlan,
    helm: PathBuf,
    helmfile: PathBuf,
}

impl Scene {
    fn new(recipe: &str, helm: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let recipe = library::recipe(recipe);
        let helm = tool(helm);
        let charts = directory.path().join("charts");
        let url = serve(charts.clone());
        let repositories =
            EmbeddedCatalog.repositories().into_iter().map(|name| (name.to_owned(), url.clone()));
        let options =
            PlanOptions { chart_repositories: repositories.collect(), ..PlanOptions::default() };
        let plan = plan(&recipe, &EmbeddedCatalog, &options).unwrap();
        let deployer = "helmfile".parse().unwrap();
        let parts = BundleInput {
            recipe: &recipe,
            plan: &plan,
            options: &options,
            deployer,
            hook_chart: hook_chart::contents(),
            source: None,
        };
        let bundle = directory.path().join("a bundle");
        write(&build(parts).unwrap(), &bundle, false).unwrap();
        stand_in(&plan, &charts, &helm);
        let scene = Self { directory, bundle, plan, helm, helmfile: tool("helmfile") };
        for (name, text) in [
            ("calls", ""),
            ("failing", ""),
            ("list", "NAME\n"),
            ("helm", scene.helm.to_str().unwrap()),
        ] {
            scene.put(name, text);
        }
        scene.put("noting-helm", NOTING_HELM);
        fs::set_permissions(scene.path("noting-helm"), fs::Permissions::from_mode(0o755)).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, helm: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.helmfile);
        command.current_dir(&self.bundle).arg("--helm-binary").arg(helm).args(arguments);
        for (variable, place) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
            ("HOME", "home"),
        ] {
            command.env(variable, self.path(place));
        }
        command
            .env("HELMFILE_CACHE_HOME", self.path("helmfile-cache"))
            .env("KUBECONFIG", self.path("none"))
            .output()
            .unwrap()
    }

    /// What helmfile prints.
    fn output(&self, arguments: &[&str]) -> String {
        said(&self.run(&self.helm, arguments), arguments)
    }

    /// The calls of Helm that would write, in order, each as its words.
    fn calls(&self, arguments: &[&str]) -> (bool, Vec<Vec<String>>) {
        self.put("calls", "");
        let output = self.run(&self.path("noting-helm"), arguments);
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        (
            output.status.success(),
            calls.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect(),
        )
    }
}

/// The release that a call is about: namespaces are called like releases.
fn release_of(call: &[String]) -> &str {
    &call[if call[0] == "upgrade" { 2 } else { 1 }]
}

fn said(output: &Output, what: &[&str]) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    assert!(output.status.success(), "{what:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Charts of the names and versions of the plan that show the values which they get.
fn stand_in(plan: &ReleasePlan, charts: &Path, helm: &Path) {
    fs::create_dir_all(charts).unwrap();
    let run = |arguments: &[&str]| {
        said(&Command::new(helm).current_dir(charts).args(arguments).output().unwrap(), arguments)
    };
    for release in &plan.releases {
        let ReleaseKind::Upstream(upstream) = &release.kind else { continue };
        let place = upstream.chart.place();
        let name = place.rsplit('/').next().unwrap();
        let source = charts.join("source").join(&release.name).join(name);
        fs::create_dir_all(source.join("templates")).unwrap();
        fs::write(
            source.join("Chart.yaml"),
            format!("apiVersion: v2\nname: {name}\nversion: {:?}\n", upstream.version),
        )
        .unwrap();
        let seen = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-seen\n  namespace: {{ .Release.Namespace }}\ndata:\n  values: {{ .Values | toJson | quote }}\n";
        fs::write(source.join("templates/seen.yaml"), seen).unwrap();
        run(&["package", source.to_str().unwrap()]);
    }
    run(&["repo", "index", "."]);
}

/// Serves the files of a directory for as long as the tests run; returns the address.
fn serve(directory: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that went away needs no answer.
            let _ = stream.and_then(|stream| answer(stream, &directory));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, directory: &Path) -> std::io::Result<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let name = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/');
    let content = fs::read(directory.join(name)).ok();
    let status = if content.is_some() { "200 OK" } else { "404 Not Found" };
    let content = content.unwrap_or_default();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        content.len()
    )?;
    stream.write_all(&content)
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helmfile_with_helm_3_deploys_as_planned() {
    each("helm3");
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helmfile_with_helm_4_deploys_as_planned() {
    each("helm4");
}

/// Texts with Go templates, commands or YAML stay unchanged, although helmfile evaluates the texts
/// of a release.
#[test]
#[ignore = "needs helm (make e2e)"]
fn helmfile_takes_hostile_values_for_values() {
    let directory = tempfile::tempdir().unwrap();
    let recipe = directory.path().join("recipe.yaml");
    let mut hostile = crate::render::injection::real::hostile();
    // Its chart is in no catalog, and not at hand.
    hostile["components"].as_array_mut().unwrap().pop();
    fs::write(&recipe, yaml::to_string(&hostile).unwrap()).unwrap();
    let scene = Scene::new(recipe.to_str().unwrap(), "helm3");
    lists(&scene, "hostile");
    gives_values(&scene, "hostile");
    assert!(!scene.bundle.join("injected").exists());
}

fn each(helm: &str) {
    for name in catalog::recipe_names() {
        let (scene, label) = (Scene::new(name, helm), format!("{name} with {helm}"));
        lists(&scene, &label);
        gives_values(&scene, &label);
        syncs(&scene, &label);
    }
}

/// `list` and `build`: releases, charts, versions, timeouts.
fn lists(scene: &Scene, label: &str) {
    let listed: Vec<Value> =
        serde_json::from_str(&scene.output(&["list", "--output", "json"])).unwrap();
    let listed: BTreeMap<&str, &Value> =
        listed.iter().map(|release| (release["name"].as_str().unwrap(), release)).collect();
    assert_eq!(listed.len(), scene.plan.releases.len(), "{label}");
    for (folder, release) in folders(&scene.plan) {
        let found = listed[release.name.as_str()];
        assert_eq!(
            (&found["namespace"], &found["enabled"], &found["installed"]),
            (&release.namespace.clone().into(), &true.into(), &true.into())
        );
        let chart = found["chart"].as_str().unwrap();
        match &release.kind {
            ReleaseKind::Upstream(upstream) => {
                assert_eq!(
                    chart.rsplit('/').next(),
                    upstream.chart.place().rsplit('/').next(),
                    "{label}"
                );
                assert_eq!(found["version"], upstream.version, "{label}");
            }
            ReleaseKind::Crds(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_)
            | ReleaseKind::Hook(_) => {
                assert_eq!(chart, format!("./{folder}"), "{label}");
            }
        }
    }
    let built: Vec<Value> = serde_yaml::from_multiple(&scene.output(&["build"])).unwrap();
    let built: Vec<&Value> =
        built.iter().filter_map(|state| state["releases"].as_array()).flatten().collect();
    let timeouts: BTreeMap<&str, u64> = built
        .iter()
        .map(|release| (release["name"].as_str().unwrap(), release["timeout"].as_u64().unwrap()))
        .collect();
    for release in &scene.plan.releases {
        assert_eq!(
            timeouts[release.name.as_str()],
            release.timeout_seconds,
            "{label}: {}",
            release.name
        );
    }
}

/// `template`: values, trigger digests, CRDs, other objects.
fn gives_values(scene: &Scene, label: &str) {
    let objects: Vec<Value> =
        serde_yaml::from_multiple(&scene.output(&["template", "--args", "--kube-version=1.34.0"]))
            .unwrap();
    let named = |name: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == name)
            .unwrap()
    };
    for (folder, release) in folders(&scene.plan) {
        match &release.kind {
            ReleaseKind::Upstream(upstream) => {
                let seen = named(&format!("{}-seen", release.name));
                let values: Value =
                    serde_json::from_str(seen["data"]["values"].as_str().unwrap()).unwrap();
                assert_eq!(values, Value::Object(upstream.values.clone()), "{label}: {folder}");
            }
            ReleaseKind::Hook(_) => {
                let mut command = Command::new(&scene.helm);
                command.current_dir(&scene.bundle).args([
                    "template",
                    &release.name,
                    &folder,
                    "--namespace",
                    &release.namespace,
                ]);
                command.args(["--kube-version", "1.34.0"]);
                for file in values_of(&scene.plan, release)
                    .into_iter()
                    .chain([format!("{folder}/rollout.yaml")])
                {
                    command.args(["--values", &file]);
                }
                let direct: Vec<Value> =
                    serde_yaml::from_multiple(&said(&command.output().unwrap(), &["template"]))
                        .unwrap();
                let trigger = format!("{}-trigger", release.name);
                let expected = direct
                    .iter()
                    .find(|object| object["metadata"]["name"] == trigger.as_str())
                    .unwrap();
                assert_eq!(
                    named(&trigger)["data"]["digest"],
                    expected["data"]["digest"],
                    "{label}: {folder}"
                );
            }
            ReleaseKind::Crds(crds) => {
                let found: BTreeSet<&str> = objects
                    .iter()
                    .filter(|object| object["kind"] == "CustomResourceDefinition")
                    .map(|object| object["metadata"]["name"].as_str().unwrap())
                    .collect();
                assert!(
                    crds.crds.iter().all(|crd| found.contains(crd.name.as_str())),
                    "{label}: {folder}"
                );
            }
            ReleaseKind::Templates(_) | ReleaseKind::Kustomization(_) => {
                panic!("{label}: {folder}")
            }
            ReleaseKind::Manifests(manifests) => {
                assert!(
                    manifests.objects.iter().all(|object| objects.contains(object)),
                    "{label}: {folder}"
                );
            }
        }
    }
}

/// `sync`: what Helm is asked, and in which order.
fn syncs(scene: &Scene, label: &str) {
    let (succeeded, calls) = scene.calls(&["sync"]);
    assert!(succeeded && calls.len() == scene.plan.releases.len(), "{label}: {calls:#?}");
    let mut done: Vec<&str> = Vec::new();
    for call in &calls {
        let has = |flag: &str| {
            call.iter().any(|word| word == flag || word.starts_with(&format!("{flag}=")))
        };
        let after = |flag: &str| {
            call.iter().position(|word| word == flag).map(|place| call[place + 1].as_str())
        };
        let release =
            scene.plan.releases.iter().find(|release| release.name == release_of(call)).unwrap();
        assert!(
            release.needs.iter().all(|need| done.contains(&need.as_str())),
            "{label}: {} too early",
            release.name
        );
        done.push(&release.name);
        assert_eq!(
            after("--timeout"),
            Some(format!("{}s", release.timeout_seconds).as_str()),
            "{label}: {call:?}"
        );
        assert_eq!(after("--namespace"), Some(release.namespace.as_str()), "{label}: {call:?}");
        assert_eq!(after("--history-max"), Some("5"), "{label}: {call:?}");
        let is_ours = release.kind.takes_ownership();
        assert_eq!(has("--take-ownership"), is_ours, "{label}: {call:?}");
        if let ReleaseKind::Upstream(upstream) = &release.kind {
            assert_eq!(has("--skip-crds"), upstream.skip_crds, "{label}: {call:?}");
            assert_eq!(after("--version"), Some(upstream.version.as_str()), "{label}: {call:?}");
        }
        for flag in [
            "--wait",
            "--atomic",
            "--rollback-on-failure",
            "--force",
            "--no-hooks",
            "--create-namespace",
            "--reuse-values",
        ] {
            assert!(!has(flag), "{label}: {flag} in {call:?}");
        }
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn trap_helmfile_continues_after_failure_only_where_independent() {
    let scene = Scene::new("eks-gb200-training", "helm3");
    scene.put("failing", "gpu-operator-post");
    let (succeeded, calls) = scene.calls(&["sync"]);
    assert!(!succeeded);
    for release in &scene.plan.releases {
        let ran = calls.iter().any(|call| release_of(call) == release.name);
        assert!(
            !ran || !release.needs.iter().any(|need| need == "gpu-operator-post"),
            "{} ran",
            release.name
        );
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helmfile_destroys_in_the_opposite_order() {
    let scene = Scene::new("eks-gb200-training", "helm4");
    // Every requested chart exists.
    scene.put("list", "NAME\nsomething\tdefault\t1\tnow\tdeployed\tx-1\t1\n");
    let (succeeded, calls) = scene.calls(&["destroy"]);
    assert!(succeeded && calls.len() == scene.plan.releases.len(), "{calls:#?}");
    let place = |name: &str| calls.iter().position(|call| release_of(call) == name).unwrap();
    for release in &scene.plan.releases {
        assert!(
            release.needs.iter().all(|need| place(need) > place(&release.name)),
            "{} outlives what it needs",
            release.name
        );
    }
}
