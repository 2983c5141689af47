//! The images of every chart whose values the catalog has, with the chart's defaults.

use serde_json::Map;

use crate::images::of_chart;

/// Each image in one line: component, version, whether it is used, place, reference. Written by
/// hand from the charts, their sub-charts and the operators' sources.
const EXPECTED: &str = include_str!("images.txt");

#[test]
fn images_of_every_chart_are_complete() {
    let mut found = Vec::new();
    for component in catalog::component_names().filter_map(catalog::component) {
        for version in &component.versions {
            if component.default_values(version).is_none() {
                continue;
            }
            let (name, version) = (&component.name, &version.version);
            let list = of_chart(name, version, &Map::new());
            assert_eq!(list.unknown, [""; 0], "{name} {version}");
            found.extend(list.images.iter().map(|image| {
                let state = if image.enabled { "on" } else { "off" };
                format!("{name} {version} {state} {} {}", image.place, image.reference())
            }));
        }
    }
    found.sort_unstable();
    let expected: Vec<&str> = EXPECTED.lines().collect();
    let missing: Vec<&&str> =
        expected.iter().filter(|line| !found.iter().any(|own| own == *line)).collect();
    let wrong: Vec<&String> =
        found.iter().filter(|line| !expected.contains(&line.as_str())).collect();
    assert_eq!((missing, wrong), (Vec::new(), Vec::new()));
    assert_eq!(found.len(), expected.len(), "an image is listed twice");
}
