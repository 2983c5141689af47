//! Mutations of `deploy.sh`: its steps, their order, and how it calls Helm.

use super::{Mutation, Scene, lines, names};

/// The lines of `deploy.sh` that deploy a release: kind, folder, namespace, timeout, version, CRDs,
/// chart, repository, values.
#[test]
fn every_changed_word_of_a_step_is_named() {
    let scene = Scene::new();
    let script = &scene.texts[0]["deploy.sh"];
    let mut checked = 0;
    for (at, line) in script.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind @ ("upstream" | "crds" | "manifests" | "hook"), folder, ..] = words.as_slice()
        else {
            continue;
        };
        let release = folder.split_once('-').map(|(_, name)| name);
        for changed in 0..words.len() {
            let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            words[changed] =
                if changed == 3 { "7".to_owned() } else { format!("{}x", words[changed]) };
            let mutation = Mutation {
                file: "deploy.sh".to_owned(),
                line: at + 1,
                before: String::new(),
                from: line.to_owned(),
                to: Some(words.join(" ")),
            };
            let parity = scene.parity(0, &mutation.applied(&scene.texts[0]));
            // The version of CRDs is only printed. What is not a step of `crds-elsewhere` leaves
            // the CRDs to the chart.
            let is_spoken = (*kind == "crds" && changed == 4) || words[changed] == "crds-in-chartx";
            assert!(
                names(&parity, release, &[]) || is_spoken,
                "{}: {}",
                mutation.shown(),
                lines(&parity.unwrap())
            );
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// The arguments that the functions of `deploy.sh` pass to Helm, and the script's end at the first
/// failure.
#[test]
fn every_lost_argument_of_helm_is_named() {
    let scene = Scene::new();
    let script = &scene.texts[0]["deploy.sh"];
    // Not about what is deployed, but about how conflicts end, what is kept and what is printed.
    let other = ["--history-max", "--hide-notes", "--force-conflicts", "--server-side=true"];
    let start = script.lines().position(|line| line == "step() {").unwrap();
    let mut checked = 0;
    for (at, line) in script.lines().enumerate() {
        let is_gate = line == "set -eu"
            || (at > start && ["  exit 1", "  name=${folder#*-}"].contains(&line));
        let words: Vec<&str> = line.split([' ', '"']).collect();
        let flags: Vec<&str> =
            words.into_iter().filter(|word| word.starts_with("--") && *word != "--").collect();
        let has_flag = at > start
            && !line.starts_with('#')
            && flags.iter().any(|flag| !other.contains(flag))
            && !line.contains("printf");
        let has_path =
            at > start && line.contains("$bundle/") && !line.trim_start().starts_with('#');
        let mut changes: Vec<Option<String>> = Vec::new();
        if is_gate || (has_path && !has_flag) {
            changes.push(None);
        }
        if has_flag {
            let told = flags.iter().filter(|flag| !other.contains(flag));
            changes.extend(told.map(|flag| Some(line.replacen(&format!(" {flag}"), "", 1))));
        }
        for to in changes {
            let mutation = Mutation {
                file: "deploy.sh".to_owned(),
                line: at + 1,
                before: String::new(),
                from: line.to_owned(),
                to,
            };
            let parity = scene.parity(0, &mutation.applied(&scene.texts[0]));
            assert!(names(&parity, None, &[]), "{}", mutation.shown());
            checked += 1;
        }
    }
    assert!(checked > 8, "{checked}");
}

/// Two releases of `deploy.sh` in the other order.
#[test]
fn every_changed_order_of_steps_is_named() {
    let scene = Scene::new();
    let script = &scene.texts[0]["deploy.sh"];
    let is_step = |line: &&str| {
        ["upstream ", "crds ", "manifests ", "hook "].iter().any(|kind| line.starts_with(kind))
            && !line.ends_with('{')
    };
    let steps: Vec<&str> = script.lines().filter(is_step).collect();
    assert!(steps.len() > 5);
    for pair in steps.windows(2) {
        let swapped = script
            .replace(&format!("{}\n{}", pair[0], pair[1]), &format!("{}\n{}", pair[1], pair[0]));
        let texts = scene.texts[0].iter().map(|(path, text)| {
            (path.clone(), if path == "deploy.sh" { swapped.clone() } else { text.clone() })
        });
        let parity = scene.parity(0, &texts.collect());
        let release = pair[1].split_once('-').and_then(|(_, rest)| rest.split(' ').next());
        assert!(
            names(&parity, release, &["position"]),
            "{}: {release:?}: {}",
            pair[1],
            lines(&parity.unwrap())
        );
    }
}
