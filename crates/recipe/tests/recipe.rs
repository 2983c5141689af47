//! Tests of recipes: the findings of bad recipes, and the merge of good ones.

use std::path::Path;

use ::recipe::load::load;
use ::recipe::overrides::ValueOverride;
use ::recipe::read::{
    AllowedDirectoriesReader, FileSystemReader, ReadError, SIZE_LIMIT, TextReader, read_limited,
};
use ::recipe::schema;
use catalog::keys::ChartKeys;

/// The file system, where recipes may extend those in `recipe/parts`.
fn with_parts() -> AllowedDirectoriesReader {
    AllowedDirectoriesReader { allowed: vec!["tests/recipe/parts".to_owned()] }
}

/// Each file in `recipe/bad`, with all its findings.
#[test]
fn bad_recipes() {
    insta::glob!("recipe/bad/*.yaml", |path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let said = match load(&format!("tests/recipe/bad/{name}"), &[], &mut with_parts()) {
            Ok(loaded) => loaded.warnings,
            Err(findings) => findings,
        };
        assert!(!said.is_empty(), "{name}: no findings");
        let text = format!("{}\n\n{}", said.render_plain(), said.summary());
        assert!(!text.contains("hunter2"), "{name}: a secret is shown");
        insta::with_settings!({snapshot_path => "recipe/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!("bad", text);
        });
    });
}

fn said(argument: &str, overrides: &[&str], reader: &mut dyn TextReader) -> String {
    let overrides: Vec<ValueOverride> =
        overrides.iter().map(|text| text.parse().expect("the tests write PATH=VALUE")).collect();
    match load(argument, &overrides, reader) {
        Ok(loaded) => format!("ok\n{}", loaded.warnings.render_plain()),
        Err(findings) => findings.render_plain(),
    }
}

#[test]
fn every_recipe_of_the_library_is_clean() {
    for name in catalog::recipe_names() {
        assert_eq!(said(name, &[], &mut FileSystemReader), "ok\n", "{name}");
        let loaded = load(name, &[], &mut FileSystemReader).unwrap();
        assert_eq!(loaded.recipe.metadata.name, name, "a recipe is called like its file");
        assert!(
            loaded.recipe.metadata.description.is_some(),
            "{name} has no description for `recipe list`"
        );
    }
}

/// The output of `recipe show` is itself an equivalent recipe.
#[test]
fn a_merged_recipe_is_a_recipe() {
    for name in catalog::recipe_names() {
        let recipe = load(name, &[], &mut FileSystemReader).unwrap().recipe;
        let again =
            load("-", &[], &mut Text(yaml::to_string(&recipe).unwrap().into_bytes())).unwrap();
        assert_eq!(again.recipe, recipe, "{name}");
    }
}

/// Bytes instead of a file.
struct Text(Vec<u8>);

impl TextReader for Text {
    fn file(&mut self, _path: &str) -> Result<String, ReadError> {
        self.standard_input()
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        read_limited(self.0.as_slice())
    }
}

#[test]
fn bytes_that_are_no_recipe() {
    let head =
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {name: x}\nextends: [base]\n";
    let bomb: String = (1..10)
        .map(|level| format!("a{level}: &a{level} [{}]\n", format!("*a{}, ", level - 1).repeat(10)))
        .fold("a0: &a0 [x]\n".to_owned(), |text, line| text + &line);
    let deep = format!("a: {}", "[".repeat(200));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("nul", format!("{head}cluster: {{gpu\0Nodes: 4}}\n").into_bytes()),
        ("not utf-8", [head.as_bytes(), &[0xc3, 0x28]].concat()),
        ("utf-16", "\u{feff}kind: Recipe".encode_utf16().flat_map(u16::to_le_bytes).collect()),
        ("byte order mark is fine", format!("\u{feff}{head}").into_bytes()),
        ("windows line ends are fine", head.replace('\n', "\r\n").into_bytes()),
        ("bomb", bomb.into_bytes()),
        ("deep", deep.into_bytes()),
        ("too large", vec![b'#'; usize::try_from(SIZE_LIMIT).unwrap() + 1]),
        (
            "an alias is fine",
            format!("{head}components:\n  - name: gpu-operator\n    values: {{dcgm: &on {{enabled: true}}, gdrcopy: *on}}\n").into_bytes(),
        ),
    ];
    let text: Vec<String> = cases
        .into_iter()
        .map(|(name, bytes)| format!("## {name}\n{}", said("-", &[], &mut Text(bytes))))
        .collect();
    insta::with_settings!({snapshot_path => "recipe/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("bytes", text.join("\n\n"));
    });
}

#[test]
fn overrides() {
    let cases: [&[&str]; 26] = [
        &["cluster.gpuNodes=64"],
        &["rollout.gpuDriver.version=580.10"],
        &[
            "components.gpu-operator.version=v26.3.3",
            "components.gpu-operator.values.driver.manager.version=0.10",
        ],
        &["rollout.dra.reroll=off", "rollout.dra.required=false"],
        &["rollout.gpuDriver.version=null", "components.gpu-operator.values.driver.version=580.10"],
        &[r"components.gpu-operator.values.daemonsets.labels.example\.org/team=ml"],
        &["components.gpu-operator.values.devicePlugin.env=[{name: A, value: b}]"],
        &["cluster.gpuNodes=many"],
        &["cluster.gpuNodes=-1"],
        &["rollout.gpuDriver.policy.drain={enable: true, timeout: 0}"],
        &["cluster.gpuNode=64"],
        &["cluster=4"],
        &["cluster.gpuNodes.x=4"],
        &["rollout.ofedDriver.mode=observe"],
        &["rollout.gpuDriver.mode=drive"],
        &["rollout.gpuDriver.mode=drove"],
        &["rollout.gpuDriver.mode=observe", "rollout.gpuDriver.policy.soak=5m"],
        &["components.gpu-oprator.version=v26.3.1"],
        &["components.network-operator.version=1"],
        &["components=[]"],
        &["components.gpu-operator.values.driver.maxParallelUpgrades=4"],
        &["components.nvidia-dra-driver-gpu.values.kubeletPlugin.tolerations.0.key=x"],
        &["components.gpu-operator.values.dcgm.enabled={"],
        &["kind=Recipe"],
        &["metadata.name=Other_Name"],
        &["components.gpu-operator.values.driver.env=[{name: TOKEN, value: hunter2}]"],
    ];
    let text: Vec<String> = cases
        .iter()
        .map(|set| {
            format!(
                "## --set {}\n{}",
                set.join(" --set ").replace("hunter2", "…"),
                said("eks-gb200-training", set, &mut FileSystemReader)
            )
        })
        .collect();
    let text = text.join("\n\n");
    assert!(!text.contains("hunter2"), "a secret is shown");
    insta::with_settings!({snapshot_path => "recipe/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("overrides", text);
    });
}

#[test]
fn typed_text_stays_text() {
    let set = [
        "rollout.gpuDriver.version=null",
        "components.gpu-operator.values.driver.version=580.10",
        "components.gpu-operator.values.dcgm.enabled=false",
    ];
    let overrides: Vec<ValueOverride> = set.iter().map(|text| text.parse().unwrap()).collect();
    let recipe = load("eks-gb200-training", &overrides, &mut FileSystemReader).unwrap().recipe;
    assert_eq!(recipe.rollout.gpu_driver.version, None);
    let values = &recipe
        .components
        .iter()
        .find(|component| component.name == "gpu-operator")
        .unwrap()
        .values;
    assert_eq!(values["driver"]["version"], "580.10");
    assert_eq!(values["dcgm"]["enabled"], false);
}

#[test]
fn the_committed_schemas_are_fresh() {
    // The schema for editors is made of the embedded one: after an update, it needs another run.
    for (file, text) in [(schema::EMBEDDED, schema::embedded()), (schema::FILE, schema::text())] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let committed = std::fs::read_to_string(&path).unwrap();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(committed == text, "{file} was stale: run the tests with UPDATE=1, and again");
    }
}

/// Removes the default values that no template reads.
fn drop_unread(values: &mut serde_json::Map<String, serde_json::Value>, keys: &ChartKeys) {
    values.retain(|key, value| {
        let Some(child) = keys.child(key) else { return keys.is_open() };
        let Some(below) = value.as_object_mut().filter(|below| !below.is_empty()) else {
            return true;
        };
        drop_unread(below, child);
        !below.is_empty()
    });
}

/// The charts' own default values are valid, without those that a bundle or a recipe sets
/// elsewhere.
#[test]
fn default_values_pass() {
    for name in catalog::component_names() {
        let component = catalog::component(name).unwrap();
        for version in &component.versions {
            let Some(mut values) = component.default_values(version).cloned() else { continue };
            let keys = ChartKeys::of_version(component, version).unwrap();
            drop_unread(&mut values, keys);
            for (path, _) in version.fixed_values() {
                let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
                let parent = parents
                    .split('.')
                    .filter(|key| !key.is_empty())
                    .try_fold(&mut values, |map, key| map.get_mut(key)?.as_object_mut());
                parent.map(|map| map.shift_remove(last));
            }
            for driver in ["driver", "ofedDriver"] {
                values
                    .get_mut(driver)
                    .and_then(|driver| driver.as_object_mut())
                    .map(|driver| driver.shift_remove("upgradePolicy"));
            }
            if let Some(switch) = values.get_mut("gpuResourcesEnabledOverride") {
                *switch = true.into();
            }
            // The Network Operator does nothing without one, so there is a warning.
            let resources = version
                .custom_resources
                .iter()
                .map(|resource| (resource.kind.clone(), serde_json::json!({"tolerations": []})));
            let resources: serde_json::Map<_, _> = resources.collect();
            let recipe = serde_json::json!({
                "apiVersion": "gpu-rollout.dev/v1",
                "kind": "Recipe",
                "metadata": {"name": "defaults"},
                "cluster": {"gpuNodes": 4},
                "components": [{"name": name, "version": version.version, "values": values, "customResources": resources}],
            });
            let text = yaml::to_string(&recipe).unwrap();
            let found = said("-", &[], &mut Text(text.into_bytes()));
            // No value disables the post-delete Job of its NFD.
            let has_job = (name, version.version.as_str()) == ("network-operator", "25.1.0");
            let rule = "rule `network-operator-nfd-cleanup`";
            let is_expected = if has_job { found.contains(rule) } else { found == "ok\n" };
            assert!(
                is_expected && found.matches("[incompatible]").count() == usize::from(has_job),
                "{name} {}: {found}",
                version.version
            );
        }
    }
}

/// Every file extends the next one.
struct Chain;

impl TextReader for Chain {
    fn file(&mut self, path: &str) -> Result<String, ReadError> {
        let number: usize = path.trim_end_matches(".yaml").parse().unwrap_or_default();
        let parents = format!("[{}.yaml, base]", number + 1);
        Ok(format!(
            "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: r{number}}}\nextends: {parents}\n"
        ))
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Err(ReadError::Missing)
    }
}

#[test]
fn a_chain_without_end() {
    assert!(said("0.yaml", &[], &mut Chain).starts_with(
        "error: `extends` is nested more than 16 recipes deep\n --> 15.yaml:4:11\n  |\n4 | extends: [16.yaml, base]\n  |           ^^^^^^^\n"
    ));
}

/// Both parents extend `base`. A change in only one of them is not a conflict, and the child
/// resolves conflicts.
#[test]
fn a_diamond() {
    let recipe = load("tests/recipe/good/diamond.yaml", &[], &mut with_parts()).unwrap().recipe;
    assert_eq!(recipe.metadata.name, "diamond");
    assert_eq!(recipe.cluster.gpu_nodes, 32);
    assert_eq!(recipe.rollout.gpu_driver.version.as_deref(), Some("580.126.20"));
    let values = serde_json::to_value(&recipe.components[0].values).unwrap();
    let expected = serde_json::json!({"dcgm": {"enabled": true}, "gdrcopy": {"enabled": false}, "driver": {"kernelModuleType": "proprietary"}});
    assert_eq!(values, expected);
}

mod recipe {
    mod acceptance;
    mod aicr;
    mod chart_keys;
    mod device_plugin;
    mod explain;
    mod hostile;
    mod library;
    mod lints;
    mod precompiled;
    mod rendered;
    mod stack;
}
