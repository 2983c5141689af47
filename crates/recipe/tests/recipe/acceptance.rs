//! Acceptance tests of valid recipes.

use std::fs;

use contract::acceptance::{AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::policy::UpgradeSettings;
use recipe::explain::explain;
use recipe::load::{ValidRecipe, load};
use recipe::overrides::ValueOverride;
use recipe::read::FileSystemReader;

const GOOD: &str = "tests/recipe/good/acceptance.yaml";

fn loaded(path: &str, overrides: &[ValueOverride]) -> ValidRecipe {
    load(path, overrides, &mut FileSystemReader)
        .unwrap_or_else(|findings| panic!("{}", findings.render_plain()))
}

#[test]
fn absent_keys_of_tests_have_defaults() {
    let loaded = loaded(GOOD, &[]);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.render_plain());
    let tests: Vec<AcceptanceTest> =
        loaded.recipe.rollout.acceptance.iter().map(AcceptanceTest::from).collect();
    let share = AcceptanceNodes::Share("10%".parse().expect("a share"));
    assert_eq!(
        tests,
        [
            AcceptanceTest {
                name: "smi".to_owned(),
                timeout_seconds: 600,
                when: vec![AcceptanceTime::Before, AcceptanceTime::After],
                nodes: AcceptanceNodes::All,
                gpus: AcceptanceGpus::All,
                log_lines: 0,
            },
            AcceptanceTest {
                name: "host".to_owned(),
                timeout_seconds: 1800,
                when: vec![AcceptanceTime::After],
                nodes: share,
                gpus: AcceptanceGpus::Template,
                log_lines: 50,
            },
        ]
    );
    let settings = release::upgrade(&loaded.recipe.rollout, contract::driver::Driver::Gpu);
    assert_eq!(settings.acceptance, tests);
    let ofed = release::upgrade(&loaded.recipe.rollout, contract::driver::Driver::Ofed);
    assert_eq!(ofed.acceptance, UpgradeSettings::default().acceptance);
}

#[test]
fn recipe_with_tests_is_written_and_read_again() {
    let recipe = loaded(GOOD, &[]).recipe;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("again.yaml");
    fs::write(&path, yaml::to_string(&recipe).expect("YAML")).expect("a file");
    let again = loaded(path.to_str().expect("a path"), &[]).recipe;
    assert_eq!(again, recipe);
}

#[test]
fn list_of_a_recipe_replaces_that_of_its_parent() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    let head = |name: &str, parent: &str| {
        format!(
            "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: {name}}}\nextends: [{parent}]\n"
        )
    };
    let test =
        |name: &str| format!("    - {{name: {name}, pod: {{image: \"example.com/a:1\"}}}}\n");
    let parent = format!(
        "{}rollout:\n  gpuDriver: {{mode: drive}}\n  acceptance:\n{}{}",
        head("parent", "base"),
        test("smi"),
        test("dcgm")
    );
    write("parent.yaml", &parent);
    let names = |text: &str| {
        let recipe = loaded(&write("child.yaml", text), &[]).recipe;
        let tests = recipe.rollout.acceptance.into_iter();
        tests.map(|test| test.name).collect::<Vec<String>>()
    };
    let child = head("child", "parent.yaml");
    assert_eq!(names(&child), ["smi", "dcgm"]);
    assert_eq!(names(&format!("{child}rollout:\n  acceptance:\n{}", test("nccl"))), ["nccl"]);
    assert!(names(&format!("{child}rollout: {{acceptance: null}}\n")).is_empty());
}

#[test]
fn values_of_a_test_are_explained_by_its_name() {
    let loaded = loaded(GOOD, &[]);
    let said = |path: &str| explain(&loaded, &path.parse().expect("a path"));
    let set = said("rollout.acceptance.host.timeout").expect("it is set");
    assert!(set.starts_with("rollout.acceptance.host.timeout: \"30m\"\n"), "{set}");
    let default = said("rollout.acceptance.smi.timeout").expect("it has a default");
    assert!(default.contains("default of gpu-rollout: \"10m\""), "{default}");
    let hint = said("rollout.acceptance.smo.timeout").expect_err("no such test").hint;
    assert_eq!(hint.as_deref(), Some("did you mean `rollout.acceptance.smi`?"));
}
