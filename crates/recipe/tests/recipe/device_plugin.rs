//! The configurations of the device plugin in the recipe library.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use catalog::{self, lookup};
use device_plugin_config::check::{CheckTarget, PluginVerdict, check_text};
use device_plugin_config::effective::{EffectiveConfig, SharingStrategy};
use device_plugin_config::environment::PluginChart;
use device_plugin_config::version::PluginVersion;
use diagnostics::source::{SourceText, SourceTexts};
use recipe::load::load;
use recipe::model::RecipeComponent;
use recipe::read::FileSystemReader;

/// Returns the settings that this version of the plugin starts with.
fn started(component: &RecipeComponent, name: &str, version: PluginVersion) -> EffectiveConfig {
    let text =
        yaml::to_string(&component.device_plugin_config.as_ref().unwrap().configs[name]).unwrap();
    let chart: PluginChart = component.name.parse().unwrap();
    let environment = chart.environment(version, &|path| lookup(&component.values, path).cloned());
    let mut sources = SourceTexts::default();
    let source = sources.add(SourceText { name: "config.yaml".to_owned(), text });
    let report = check_text(&sources, source, &CheckTarget { version, environment });
    assert!(report.findings.is_empty(), "{name} at {version}: {:?}", report.findings);
    let PluginVerdict::Ok(effective) = report.verdict else {
        panic!("{name} at {version}: {:?}", report.verdict)
    };
    *effective
}

fn component(recipe: &str) -> RecipeComponent {
    let components = load(recipe, &[], &mut FileSystemReader).unwrap().recipe.components;
    components.into_iter().find(|component| component.device_plugin_config.is_some()).unwrap()
}

/// Recipes also work with later plugins than their chart's.
#[test]
fn proven_plugins_start_with_every_library_configuration() {
    let mut seen = Vec::new();
    for recipe in catalog::recipe_names() {
        for component in load(recipe, &[], &mut FileSystemReader).unwrap().recipe.components {
            for name in
                component.device_plugin_config.iter().flat_map(|config| config.configs.keys())
            {
                seen.push(format!("{recipe}/{name}"));
                for version in PluginVersion::PROVEN {
                    started(&component, name, version);
                }
            }
        }
    }
    assert!(
        ["l40s-mps/shared", "l40s-time-slicing/shared"]
            .iter()
            .all(|wanted| seen.iter().any(|one| one == wanted)),
        "{seen:?}"
    );
}

/// Shared in time or in space, it is four shares of another name, of which a container gets one.
#[test]
fn both_ways_of_sharing_offer_the_same() {
    for (recipe, strategy) in
        [("l40s-mps", SharingStrategy::Mps), ("l40s-time-slicing", SharingStrategy::TimeSlicing)]
    {
        let component = component(recipe);
        for version in PluginVersion::PROVEN {
            let shared = started(&component, "shared", version);
            assert_eq!(
                (shared.sharing_strategy, shared.fail_requests_greater_than_one),
                (strategy, Some(true)),
                "{recipe} at {version}"
            );
            let [advertised] = shared.advertised.as_slice() else {
                panic!("{:?}", shared.advertised)
            };
            let expected = ("nvidia.com/gpu", "nvidia.com/gpu.shared", 4);
            assert_eq!(
                (advertised.from.as_str(), advertised.name.as_str(), advertised.replicas),
                expected,
                "{recipe} at {version}"
            );
            assert_eq!(
                started(&component, "whole", version).sharing_strategy,
                SharingStrategy::None
            );
        }
    }
}
