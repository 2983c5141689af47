//! Every path that `src/` names, held against the table.

use super::paths::paths;
use super::rooms::{ROOMS, World, named};
use crate::{expect_none, files};

/// The parts of a file's module: `src/recipe/model.rs` → `recipe`, `model`.
fn module(path: &str) -> Vec<String> {
    path.trim_start_matches("src/").trim_end_matches(".rs").split('/').map(str::to_owned).collect()
}

/// What is wrong in one file.
fn judge(path: &str, source: &str) -> Vec<String> {
    let module = module(path);
    let Some(room) = named(&module[0]) else {
        return vec![format!("{path}: no room `{}` in tests/architecture/rooms.rs", module[0])];
    };
    let is_test_file = path.ends_with("/tests.rs") || path.contains("/tests/");
    let mut findings = Vec::new();
    for found in paths(source, &module) {
        let shown = found.parts.join("::");
        let place = format!("{path}:{}", found.line);
        if found.parts[0] == "crate" {
            let target = found.parts.get(1).map_or("", String::as_str);
            // Items of the file itself, seen from a module in it, are no rooms.
            if target != room.name && named(target).is_some() && !room.imports.contains(&target) {
                findings.push(format!("{place}: `{}` may not import `{shown}`: {}", room.name, room.why));
            }
            if let Some(other) = between_deployers(&module, &found.parts) {
                findings.push(format!("{place}: deployer `{}` may not import `{other}`: each one stands alone", module[1]));
            }
            continue;
        }
        for (world, sign) in World::SIGNS {
            let is_test = is_test_file || found.in_tests;
            if found.parts.windows(sign.len()).any(|part| part == *sign) && !room.touches.contains(world) && !is_test {
                findings.push(format!("{place}: `{}` may not touch {world:?} (`{shown}`): {}", room.name, room.why));
            }
        }
    }
    findings
}

/// The modules of `src/deployer` that are deployers; the others are what these share.
fn deployers() -> impl Iterator<Item = String> {
    gpu_rollout::deployer::DEPLOYERS.iter().map(|deployer| deployer.name.replace('-', "_"))
}

/// The other deployer, if one deployer, or what all share, imports it.
fn between_deployers(module: &[String], parts: &[String]) -> Option<String> {
    let [first, own, ..] = module else { return None };
    if first != "deployer" || parts.get(1).is_none_or(|room| room != "deployer") {
        return None;
    }
    let target = parts.get(2)?;
    // What reads the files back may know where they lie, and nothing else of how they are written.
    if own == "facts" && !["facts", "layout"].contains(&target.as_str()) {
        return Some(target.clone());
    }
    (target != own && deployers().any(|deployer| deployer == *target)).then(|| target.clone())
}

#[test]
fn imports_point_one_way() {
    let findings: Vec<String> =
        files("src", &[".rs"]).iter().filter(|(path, _)| path != "src/lib.rs").flat_map(|(path, source)| judge(path, source)).collect();
    expect_none(&findings);
}

#[test]
fn every_kind_of_wrong_import_is_seen() {
    let wrong = [
        ("src/contract/a.rs", "use crate::{recipe, contract::b};", "`contract` may not import `crate::recipe`"),
        ("src/contract/a.rs", "fn f() { super::super::hook::run() }", "`contract` may not import `crate::hook::run`"),
        ("src/rollout/a.rs", "use k8s_openapi::api::core::v1::Node;", "may not touch Kubernetes"),
        ("src/rollout/a.rs", "async fn f() { tokio::time::sleep(d).await }", "may not touch Tasks"),
        ("src/rollout/a.rs", "fn f() -> T {\n  Timestamp::now()\n}", "src/rollout/a.rs:2: `rollout` may not touch Clock"),
        ("src/release/a.rs", "use std::{fs, io};", "may not touch Files"),
        ("src/cluster/a.rs", "use crate::hook::drive;", "`cluster` may not import"),
        ("src/hook.rs", "use crate::cli::printer::Printer;", "`hook` may not import"),
        ("src/deployer/facts/helm.rs", "use crate::deployer::chart;", "deployer `facts` may not import `chart`"),
        ("src/deployer/layout.rs", "use super::helm::facts;", "deployer `layout` may not import `helm`"),
        ("src/main.rs", "use gpu_rollout::hook::run;", "`main` may not import"),
        ("src/attic.rs", "", "no room `attic`"),
    ];
    for (path, source, expected) in wrong {
        let findings = judge(path, source);
        assert!(findings.len() == 1 && findings[0].contains(expected), "{path}: {source}\n{findings:?}");
    }
    let right = [
        ("src/recipe/a.rs", "// use crate::hook;\nuse super::model;\n#[cfg(test)]\nmod tests { use std::env; use super::*; }"),
        ("src/deployer/facts/helm.rs", "use super::chart; use crate::deployer::layout; use crate::deployer::facts::model;"),
        ("src/deployer/helm/parts.rs", "use super::super::layout; use crate::deployer::helm;"),
        ("src/deployer.rs", "pub use helm::render;"),
        ("src/bundle/tests.rs", "fn f() { std::process::Command::new(\"x\"); }"),
    ];
    for (path, source) in right {
        assert_eq!(judge(path, source), Vec::<String>::new(), "{path}: {source}");
    }
}

/// A permission that nobody uses is one that nobody would notice being used wrongly.
#[test]
fn no_row_permits_what_its_room_does_not_touch() {
    let mut unused: Vec<(&str, World)> = ROOMS.iter().flat_map(|room| room.touches.iter().map(|world| (room.name, *world))).collect();
    for (path, source) in files("src", &[".rs"]) {
        let module = module(&path);
        for found in paths(&source, &module) {
            for (world, sign) in World::SIGNS {
                if found.parts.windows(sign.len()).any(|part| part == *sign) {
                    unused.retain(|(room, permitted)| *room != module[0] || permitted != world);
                }
            }
        }
    }
    assert!(unused.is_empty(), "tests/architecture/rooms.rs permits what nothing uses: {unused:?}");
}
