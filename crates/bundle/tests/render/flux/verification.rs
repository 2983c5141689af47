//! Tests of bundles for Flux whose source and charts are verified.

use std::fmt::Write as _;

use bundle::{BundleInput, BundleTree, build};
use catalog::hook_chart;
use deployer::BundleSource;
use deployer::verification::SourceVerification;
use parity::{compare, read_facts};
use release::{EmbeddedCatalog, PlanOptions, plan};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::render::crd_schema::Schemas;
use crate::render::library;
use crate::render::parity::{files, lines};

/// Returns a bundle of the recipe `base`, with the vendor's chart from a registry.
fn bundle(verification: Option<SourceVerification>) -> BundleTree {
    let recipe = library::recipe("base");
    let repository = ("nvidia".to_owned(), "oci://charts.example.com/nvidia".to_owned());
    let options = PlanOptions { chart_repositories: [repository].into(), ..PlanOptions::default() };
    let plan = plan(&recipe, &EmbeddedCatalog, &options).unwrap();
    let source = BundleSource::new(super::URLS[1], "v1", "").unwrap();
    let source = match verification {
        Some(signers) => source.verified_by(signers).unwrap(),
        None => source,
    };
    build(BundleInput {
        recipe: &recipe,
        plan: &plan,
        options: &options,
        deployer: "flux".parse().unwrap(),
        hook_chart: hook_chart::contents(),
        source: Some(&source),
    })
    .unwrap()
}

fn by_secret() -> SourceVerification {
    SourceVerification::Secret("cosign-keys".to_owned())
}

fn by_identity() -> SourceVerification {
    let identities = [
        "https://token.example.com=https://git.example.com/team/fleet/push.yml@refs/tags/*",
        "https://accounts.example.com=team@example.com",
    ];
    SourceVerification::Identities(identities.map(|text| text.parse().unwrap()).to_vec())
}

/// Returns the kind, URL and `verify` of every source in a bundle.
fn sources(tree: &BundleTree) -> Vec<(String, String, Value)> {
    let objects = tree
        .files()
        .filter(|file| file.path == "flux-system/source.yaml" || file.path.starts_with("sources/"))
        .map(|file| yaml::from_str(std::str::from_utf8(&file.content).unwrap()).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    objects
        .map(|object: Value| {
            let spec = &object["spec"];
            (text(&object["kind"]), text(&spec["url"]), spec["verify"].clone())
        })
        .collect()
}

#[test]
fn bundle_and_own_charts_are_verified_and_vendors_are_not() {
    let cases = [
        (by_secret(), json!({"provider": "cosign", "secretRef": {"name": "cosign-keys"}})),
        (
            by_identity(),
            json!({"provider": "cosign", "matchOIDCIdentity": [
                {
                    "issuer": r"^https://token\.example\.com$",
                    "subject": r"^https://git\.example\.com/team/fleet/push\.yml@refs/tags/.*$",
                },
                {
                    "issuer": r"^https://accounts\.example\.com$",
                    "subject": r"^team@example\.com$",
                },
            ]}),
        ),
    ];
    for (signers, expected) in cases {
        let tree = bundle(Some(signers));
        let found = sources(&tree);
        let (own, others): (Vec<_>, Vec<_>) =
            found.iter().partition(|(_, url, _)| url.starts_with(super::URLS[1]));
        assert!(own.len() > 2 && !others.is_empty(), "{found:?}");
        for (kind, url, verify) in own {
            assert_eq!((kind.as_str(), verify), ("OCIRepository", &expected), "{url}");
        }
        for (kind, url, verify) in others {
            assert_eq!((kind.as_str(), verify), ("OCIRepository", &Value::Null), "{url}");
        }
    }
    assert!(sources(&bundle(None)).iter().all(|(_, _, verify)| verify.is_null()));
}

#[test]
fn verified_sources_fit_their_crd() {
    let schemas = Schemas::load("flux");
    for signers in [by_secret(), by_identity()] {
        for file in bundle(Some(signers)).files() {
            if file.path == "flux-system/source.yaml" || file.path.starts_with("sources/") {
                let object: Value =
                    yaml::from_str(std::str::from_utf8(&file.content).unwrap()).unwrap();
                assert_eq!(schemas.judge(&object), [""; 0], "{}", file.path);
            }
        }
    }
}

/// What is deployed does not depend on who must have signed it.
#[test]
fn verification_changes_no_fact() {
    let facts = |signers| read_facts(&files(&bundle(signers))).unwrap();
    let all = [facts(None), facts(Some(by_secret())), facts(Some(by_identity()))];
    let parity = compare(&all);
    assert!(parity.equal, "{}", lines(&parity));
}

#[test]
fn verification_changes_only_what_is_shown() {
    let plain = bundle(None);
    let mut seen = String::new();
    for signers in [by_secret(), by_identity()] {
        for file in bundle(Some(signers)).files().filter(|file| file.path != "checksums.txt") {
            let text = |content: &[u8]| String::from_utf8(content.to_vec()).unwrap();
            let old = text(&plain.get(&file.path).unwrap().content);
            let new = text(&file.content);
            if old != new {
                let diff =
                    TextDiff::from_lines(&old, &new).unified_diff().context_radius(1).to_string();
                writeln!(seen, "# changed file: {}\n{diff}", file.path).unwrap();
            }
        }
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("../snapshots");
    settings.add_filter(r"-[0-9a-f]{8}\.yaml", "-[digest].yaml");
    settings.bind(|| insta::assert_snapshot!("flux-verification", seen));
}
