//! Where the charts of a bundle for Flux come from, and that Kustomize finds what it is told to take.

use std::collections::BTreeSet;

use assert_cmd::Command;

use super::scenes;

#[test]
fn trap_flux_does_not_notice_another_template_under_the_same_version() {
    for scene in scenes() {
        let sources = scene.objects(&["sources"]);
        for (folder, release, object) in scene.releases() {
            let spec = &object["spec"];
            if release.kind.name() == "upstream" {
                continue;
            }
            let chart = scene.yaml(&format!("{folder}/Chart.yaml"));
            let version = chart["version"].as_str().unwrap();
            assert!(version.contains("+d"), "{}: {folder}", scene.name);
            if let Some(reference) = spec.get("chartRef") {
                let source = &sources[&format!("sources/{}.yaml", reference["name"].as_str().unwrap())];
                assert_eq!(source["spec"]["ref"]["tag"], version.replace('+', "_"), "{}: {folder}", scene.name);
                let url = source["spec"]["url"].as_str().unwrap();
                assert_eq!(url, format!("oci://registry.example.com/gpu/charts/{}", chart["name"].as_str().unwrap()));
            } else {
                // Flux ignores it for a chart from Git, but a new version is a new generation, which others wait for.
                assert_eq!(spec["chart"]["spec"]["version"], version, "{}: {folder}", scene.name);
            }
        }
    }
}

#[test]
fn trap_flux_revision_strategy_fires_the_hook_on_every_commit() {
    for scene in scenes() {
        for (folder, _, object) in scene.releases() {
            let chart = &object["spec"]["chart"]["spec"];
            if chart["sourceRef"]["kind"] == "GitRepository" {
                assert_eq!(chart["reconcileStrategy"], "ChartVersion");
                let path = chart["chart"].as_str().unwrap().strip_prefix("./bundles/").unwrap();
                assert!(path.ends_with(&format!("/flux/{folder}")), "{path}");
            } else {
                assert_eq!(chart.get("reconcileStrategy"), None);
            }
        }
    }
}

#[test]
fn every_source_is_there_and_used() {
    for scene in scenes() {
        let mut used = BTreeSet::new();
        for (_, release, object) in scene.releases() {
            let spec = &object["spec"];
            let reference = spec.get("chartRef").unwrap_or(&spec["chart"]["spec"]["sourceRef"]);
            let (kind, name) = (reference["kind"].as_str().unwrap(), reference["name"].as_str().unwrap());
            let path = if kind == "GitRepository" { "flux-system/source.yaml".to_owned() } else { format!("sources/{name}.yaml") };
            let source = scene.yaml(&path);
            assert_eq!((&source["kind"], &source["metadata"]["name"]), (&kind.into(), &name.into()), "{}: {}", scene.name, release.name);
            used.insert(path);
        }
        let there: BTreeSet<String> = scene.objects(&["sources"]).into_keys().collect();
        used.remove("flux-system/source.yaml");
        assert_eq!(there, used, "{}", scene.name);
        let sync = scene.yaml("flux-system/sync.yaml");
        let source = scene.yaml("flux-system/source.yaml");
        assert_eq!(
            (&sync["spec"]["sourceRef"]["kind"], &sync["spec"]["sourceRef"]["name"]),
            (&source["kind"], &source["metadata"]["name"])
        );
    }
}

#[test]
fn trap_kustomize_takes_files_of_its_own_folder_only() {
    for scene in scenes() {
        let kustomization = scene.yaml("kustomization.yaml");
        let lists = ["resources", "configurations"].map(|key| kustomization[key].as_array().unwrap());
        let paths = lists.into_iter().flatten().map(|path| path.as_str().unwrap());
        let generators = kustomization["configMapGenerator"].as_array().unwrap();
        let generated = generators.iter().flat_map(|generator| generator["files"].as_array().unwrap());
        let generated = generated.map(|file| file.as_str().unwrap().split_once('=').unwrap().1);
        for path in paths.chain(generated) {
            assert!(scene.tree.get(path).is_some(), "{}: {path}", scene.name);
        }
        // Charts are no resources, and what applies the bundle is not applied by it.
        for resource in kustomization["resources"].as_array().unwrap() {
            let resource = resource.as_str().unwrap();
            assert!(resource.starts_with("releases/") || resource.starts_with("sources/"), "{}: {resource}", scene.name);
        }
        assert_eq!(kustomization["namespace"], "flux-system");
    }
}

#[test]
fn what_flux_cannot_reach_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    for arguments in [
        "bundle render -r base -d flux -o out",
        "bundle render -r base -d flux -o out --repo file:///srv/fleet.git",
        "bundle render -r base -d flux -o out --repo https://git.example.com/a --chart-repository nvidia=/mnt/charts",
    ] {
        let output = Command::cargo_bin("gpu-rollout")
            .unwrap()
            .current_dir(directory.path())
            .env("NO_COLOR", "1")
            .args(arguments.split(' '))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        seen.push(format!("$ gpu-rollout {arguments}\n{}", std::str::from_utf8(&output.stderr).unwrap()));
    }
    insta::assert_snapshot!(seen.concat(), @r#"
    $ gpu-rollout bundle render -r base -d flux -o out
    error: deployer `flux` reads the bundle from a repository, and its files must say which one
    hint: add --repo URL, and --revision and --path unless `main` and its root are right
    $ gpu-rollout bundle render -r base -d flux -o out --repo file:///srv/fleet.git
    error: deployer `flux` cannot read the bundle from `file:///srv/fleet.git`: Flux reads it from inside the cluster
    hint: name a repository that the cluster reaches: --repo https://…, ssh://… or oci://…
    $ gpu-rollout bundle render -r base -d flux -o out --repo https://git.example.com/a --chart-repository nvidia=/mnt/charts
    error: deployer `flux` cannot take the chart of gpu-operator from `/mnt/charts/gpu-operator-v26.3.1.tgz`: Flux reads charts from inside the cluster
    hint: serve the charts over https:// or push them to a registry, and name that: --chart-repository NAME=https://… or NAME=oci://…
    "#);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
