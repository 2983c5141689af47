//! Tests of bundles that another version of the program rendered in another format.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{bundle, tree};
use crate::{BundleError, WriteError, diff, images, read, recipe_path, verify, write};

/// Writes a bundle's `bundle-info.yaml` as another version of the program does.
fn set_format(output: &Path, api_version: &str, rendered_by: Option<&str>) {
    let file = output.join("bundle-info.yaml");
    let mut info: Value = yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let fields = info.as_object_mut().unwrap();
    fields.insert("apiVersion".to_owned(), api_version.into());
    // This version needs the list, which another format may not have.
    fields.remove("releases");
    fields.remove("renderedBy");
    fields.extend(rendered_by.map(|program| ("renderedBy".to_owned(), Value::from(program))));
    fs::write(file, yaml::to_string(&info).unwrap()).unwrap();
}

#[test]
fn bundle_of_other_format_is_refused_by_every_reader() {
    for (format, program, named) in [
        ("gpu-rollout.dev/v2", Some("gpu-rollout 9.0.0"), "gpu-rollout 9.0.0"),
        ("gpu-rollout.dev/v10", Some("gpu-rollout 9.0.0"), "gpu-rollout 9.0.0"),
        ("gpu-rollout.dev/v1beta1", None, "another version of gpu-rollout"),
        ("", None, "another version of gpu-rollout"),
    ] {
        let (_directory, output) = bundle();
        let (_other_directory, other) = bundle();
        set_format(&output, format, program);
        let readers = [
            ("verify", verify(&output).map(drop)),
            ("read", read(&output).map(drop)),
            ("recipe", recipe_path(&output).map(drop)),
            ("images", images::images(&output).map(drop)),
            ("diff, old", diff::diff(&output, &other).map(drop)),
            ("diff, new", diff::diff(&other, &output).map(drop)),
        ];
        for (reader, result) in readers {
            match result {
                Err(BundleError::OtherFormat { api_version, rendered_by, .. }) => {
                    assert_eq!((api_version.as_str(), rendered_by.as_str()), (format, named));
                }
                found => panic!("{reader}: {format}: {found:?}"),
            }
        }
        let error = write(tree(), &output, false).unwrap_err();
        assert!(matches!(error, WriteError::Unverifiable(_)), "{format}: {error}");
        write(tree(), &output, true).unwrap();
        assert_eq!(verify(&output).unwrap(), [], "{format}: it can be replaced");
    }
}
