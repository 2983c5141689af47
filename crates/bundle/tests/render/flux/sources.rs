//! Tests of the chart sources of a bundle for Flux, and of the files that Kustomize reads.

use std::collections::BTreeSet;

use super::scenes;

#[test]
fn trap_flux_misses_changed_template_of_same_version() {
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
                let source =
                    &sources[&format!("sources/{}.yaml", reference["name"].as_str().unwrap())];
                assert_eq!(
                    source["spec"]["ref"]["tag"],
                    version.replace('+', "_"),
                    "{}: {folder}",
                    scene.name
                );
                let url = source["spec"]["url"].as_str().unwrap();
                assert_eq!(
                    url,
                    format!(
                        "oci://registry.example.com/gpu/charts/{}",
                        chart["name"].as_str().unwrap()
                    )
                );
            } else {
                // Flux ignores it for a chart from Git, but a new version is a new generation,
                // which others wait for.
                assert_eq!(spec["chart"]["spec"]["version"], version, "{}: {folder}", scene.name);
            }
        }
    }
}

#[test]
fn trap_flux_revision_strategy_fires_hook_every_commit() {
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
            let (kind, name) =
                (reference["kind"].as_str().unwrap(), reference["name"].as_str().unwrap());
            let path = if kind == "GitRepository" {
                "flux-system/source.yaml".to_owned()
            } else {
                format!("sources/{name}.yaml")
            };
            let source = scene.yaml(&path);
            assert_eq!(
                (&source["kind"], &source["metadata"]["name"]),
                (&kind.into(), &name.into()),
                "{}: {}",
                scene.name,
                release.name
            );
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
fn trap_kustomize_reads_only_its_own_folder() {
    for scene in scenes() {
        let kustomization = scene.yaml("kustomization.yaml");
        let lists =
            ["resources", "configurations"].map(|key| kustomization[key].as_array().unwrap());
        let paths = lists.into_iter().flatten().map(|path| path.as_str().unwrap());
        let generators = kustomization["configMapGenerator"].as_array().unwrap();
        let generated =
            generators.iter().flat_map(|generator| generator["files"].as_array().unwrap());
        let generated = generated.map(|file| file.as_str().unwrap().split_once('=').unwrap().1);
        for path in paths.chain(generated) {
            assert!(scene.tree.get(path).is_some(), "{}: {path}", scene.name);
        }
        // Charts are not resources, and the bundle does not contain the objects that apply it.
        for resource in kustomization["resources"].as_array().unwrap() {
            let resource = resource.as_str().unwrap();
            assert!(
                resource.starts_with("releases/") || resource.starts_with("sources/"),
                "{}: {resource}",
                scene.name
            );
        }
        assert_eq!(kustomization["namespace"], "flux-system");
    }
}
