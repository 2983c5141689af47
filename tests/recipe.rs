//! Recipes from the outside: what is wrong with a bad one, and how good ones are merged.

use gpu_rollout::recipe::load::load;
use gpu_rollout::recipe::read::Files;

/// Each file in `tests/recipe/bad` and all that is said about it.
#[test]
fn bad_recipes() {
    insta::glob!("recipe/bad/*.yaml", |path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let said = match load(&format!("tests/recipe/bad/{name}"), &[], &mut Files) {
            Ok(loaded) => loaded.warnings,
            Err(findings) => findings,
        };
        assert!(!said.is_empty(), "{name}: nothing is said about it");
        let text = format!("{}\n\n{}", said.render_plain(), said.summary());
        assert!(!text.contains("hunter2"), "{name}: a secret is shown");
        insta::with_settings!({snapshot_path => "recipe/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!("bad", text);
        });
    });
}
