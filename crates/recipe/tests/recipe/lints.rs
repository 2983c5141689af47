//! Tests of each lint and each compatibility rule: a bad example with a finding, and a good one
//! without.

use std::collections::BTreeSet;
use std::fs;

use catalog::compatibility_table::rules;
use diagnostics::diagnostic::Diagnostics;
use diagnostics::lint::Lint;
use recipe::load::load;
use recipe::read::FileSystemReader;

fn findings(path: &str) -> Diagnostics {
    match load(path, &[], &mut FileSystemReader) {
        Ok(loaded) => loaded.warnings,
        Err(findings) => findings,
    }
}

#[test]
fn every_lint_has_failing_and_passing_example() {
    for lint in Lint::ALL {
        let name = lint.name();
        let bad = findings(&format!("tests/recipe/bad/lint-{name}.yaml"));
        assert!(
            bad.list.iter().any(|finding| finding.lint == Some(lint)),
            "{name} is not found:\n{}",
            bad.render_plain()
        );
        let good = findings(&format!("tests/recipe/good/lint-{name}.yaml"));
        assert!(good.is_empty(), "{name}: the good example has findings:\n{}", good.render_plain());
    }
}

/// One snapshot shows the messages of all rules.
#[test]
fn every_compatibility_rule_has_both_examples() {
    let folder = "tests/recipe/compatibility";
    let mut text = Vec::new();
    for rule in rules() {
        let name = &rule.name;
        let bad = findings(&format!("{folder}/bad/{name}.yaml"));
        let own = format!("rule `{name}`, source: ");
        let found = bad
            .list
            .iter()
            .filter(|finding| finding.hints.iter().any(|hint| hint.starts_with(&own)))
            .count();
        assert_eq!(found, 1, "{name}:\n{}", bad.render_plain());
        text.push(format!("## {name}\n{}", bad.render_plain()));
        let good = findings(&format!("{folder}/good/{name}.yaml"));
        assert!(
            !good.has_errors()
                && good.list.iter().all(|finding| finding.lint == Some(Lint::Unchecked)),
            "{name}:\n{}",
            good.render_plain()
        );
    }
    insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("compatibility", text.join("\n\n"));
    });
    let known: BTreeSet<String> =
        rules().iter().map(|rule| format!("{}.yaml", rule.name)).collect();
    for kind in ["bad", "good"] {
        let files: BTreeSet<String> = fs::read_dir(format!("{folder}/{kind}"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(files, known, "{folder}/{kind}");
    }
}
