//! `docs/support.md` has the versions of Kubernetes and of the deployers that the end-to-end tests
//! run, the versions of the components in the catalog, and the versions of the formats. `UPDATE=1`
//! updates its tables.

use std::fmt::Write;

use bundle::info;
use contract::record::RECORD_FORMAT_VERSION;
use contract::settings::FORMAT_VERSION;
use planner::drive_upgrade::record::VERSION;
use recipe::model::API_VERSION;

use crate::{generated, root};

const PAGE: &str = "docs/support.md";
const TOOLS: &str = "tests/tools";
/// The folder with the control planes of the end-to-end tests: a `.mod` file pins each of them.
const KUBERNETES: &str = "tests/tools/kubernetes";
/// The scenarios on other control planes than the usual one.
const OTHER_KUBERNETES: &str = "tests/e2e/scenarios/deployers/versions.rs";
/// What these scenarios run.
const OTHER_DEPLOYERS: &str = "for_each_deployer!(short, helm4 Helm4, flux Flux)";
/// The charts of the simulated operators.
const CHARTS: &str = "tests/e2e/harness/stand_in/charts.rs";

/// A program that deploys bundles.
struct DeployingProgram {
    name: &'static str,
    /// The Go modules in the tests: folder of [`TOOLS`], module, and a label if there are several.
    modules: &'static [(&'static str, &'static str, &'static str)],
    /// The name in the READMEs of bundles, and the oldest version that bundles are written for.
    oldest: (&'static str, &'static str),
    remark: &'static str,
    /// The README of its bundles, which states the oldest version too.
    readme: &'static str,
}

const PROGRAMS: [DeployingProgram; 5] = [
    DeployingProgram {
        name: "Helm 3",
        modules: &[("helm3", "helm.sh/helm/v3", "")],
        oldest: ("Helm", "3.18"),
        remark: "",
        readme: "templates/helm/README.md.j2",
    },
    DeployingProgram {
        name: "Helm 4",
        modules: &[("helm4", "helm.sh/helm/v4", "")],
        oldest: ("Helm", "4.2.2"),
        remark: "",
        readme: "templates/helm/README.md.j2",
    },
    DeployingProgram {
        name: "helmfile, with Helm 4",
        modules: &[("helmfile", "github.com/helmfile/helmfile", "")],
        oldest: ("helmfile", "1.0"),
        remark: ", with Helm 3.18.6 or 4.2.2",
        readme: "templates/helmfile/README.md.j2",
    },
    DeployingProgram {
        name: "Flux",
        modules: &[
            ("flux", "github.com/fluxcd/source-controller", "source-controller "),
            ("flux", "github.com/fluxcd/kustomize-controller", "kustomize-controller "),
            ("flux", "github.com/fluxcd/helm-controller", "helm-controller "),
        ],
        oldest: ("Flux", "2.7"),
        remark: "",
        readme: "templates/flux/README.md.j2",
    },
    DeployingProgram {
        name: "Argo CD",
        modules: &[("argocd", "github.com/argoproj/argo-cd/v3", "")],
        oldest: ("Argo CD", "3.0"),
        remark: ", better 3.4.5; with an OCI registry 3.1",
        readme: "templates/argocd/README.md.j2",
    },
];

fn read(path: &str) -> String {
    std::fs::read_to_string(root(path)).unwrap()
}

/// Returns the version that a `go.mod` file requires of a module, without its `v`.
fn pinned<'a>(text: &'a str, module: &str) -> Option<&'a str> {
    // A line with an arrow replaces a module.
    text.lines().filter(|line| !line.contains("=>")).find_map(|line| {
        let mut words = line.split_whitespace().filter(|word| *word != "require");
        if words.next() != Some(module) {
            return None;
        }
        words.next().map(|version| version.trim_start_matches('v'))
    })
}

/// Returns the table of the versions of Kubernetes.
fn kubernetes() -> String {
    let mut rows: Vec<(u32, String)> = Vec::new();
    for entry in std::fs::read_dir(root(KUBERNETES)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "mod") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let version = pinned(&text, "k8s.io/kubernetes").unwrap();
        let (minor, _) = version.rsplit_once('.').unwrap();
        let tests = if path.ends_with("go.mod") {
            "all end-to-end tests but those of the other versions"
        } else {
            let others = read(OTHER_KUBERNETES);
            assert!(
                others.contains(&format!("\"{minor}\"")) && others.contains(OTHER_DEPLOYERS),
                "{OTHER_KUBERNETES} does not run Kubernetes {minor} with Helm 4 and Flux"
            );
            "Helm 4 and Flux: an install, an upgrade, no change, a hook that fails"
        };
        let number = minor.split('.').nth(1).unwrap().parse().unwrap();
        rows.push((number, format!("| {minor} | {version} | {tests} |\n")));
    }
    rows.sort();
    let oldest = format!("kubeVersion: \">=1.{}.0-0\"", rows[0].0);
    assert!(read("charts/gpu-rollout/Chart.yaml").contains(&oldest), "the chart lacks {oldest}");
    let rows: String = rows.into_iter().map(|(_, row)| row).collect();
    format!("\n| Kubernetes | Version in the tests | Tests |\n|---|---|---|\n{rows}\n")
}

/// Returns the table of the deployers.
fn deployers() -> String {
    let mut table =
        "\n| Program | Version in the tests | Oldest version that bundles are written for |\n|---|---|---|\n"
            .to_owned();
    for DeployingProgram { name, modules, oldest: (product, oldest), remark, readme } in PROGRAMS {
        let tested = modules.iter().map(|(folder, module, label)| {
            let file = format!("{TOOLS}/{folder}/go.mod");
            let text = read(&file);
            let version = pinned(&text, module);
            format!("{label}{}", version.unwrap_or_else(|| panic!("{file} lacks {module}")))
        });
        let tested: Vec<String> = tested.collect();
        let stated = format!("{product} {oldest} or later");
        assert!(read(readme).contains(&stated), "{readme} does not state `{stated}`");
        writeln!(table, "| {name} | {} | {oldest}{remark} |", tested.join(", ")).unwrap();
    }
    table.push('\n');
    table
}

/// Returns a string field of a Rust literal.
fn field<'a>(literal: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = literal.split_once(&format!("{name}: \""))?;
    value.split('"').next()
}

/// Returns the table of the components that have hooks.
fn components() -> String {
    let charts = read(CHARTS);
    let mut table =
        "\n| Component | Versions in the catalog | Versions in the end-to-end tests |\n|---|---|---|\n"
            .to_owned();
    for component in catalog::component_names().filter_map(catalog::component) {
        if component.hooks.pre.is_empty() && component.hooks.post.is_empty() {
            continue;
        }
        let simulated: Vec<&str> = charts
            .split("Chart {")
            .filter(|chart| field(chart, "name") == Some(component.name.as_str()))
            .filter_map(|chart| field(chart, "version"))
            .collect();
        for version in &simulated {
            assert!(component.version(version).is_some(), "{CHARTS}: {} {version}", component.name);
        }
        let is_default = |version: &str| version == component.default_version;
        let known = component.versions.iter().map(|known| known.version.as_str());
        let known: Vec<String> = known
            .map(|version| {
                format!("{version}{}", if is_default(version) { " (default)" } else { "" })
            })
            .collect();
        let simulated = if simulated.is_empty() { "–".to_owned() } else { simulated.join(", ") };
        writeln!(table, "| `{}` | {} | {simulated} |", component.name, known.join(", ")).unwrap();
    }
    table.push('\n');
    table
}

/// Returns the table of the formats.
fn formats() -> String {
    format!(
        "
| Format | Version | Read by | An older version | A newer version |
|---|---|---|---|---|
| recipe | `{API_VERSION}` | the CLI | does not exist | is refused, and so is an unknown key |
| `bundle-info.yaml` of a bundle | `{}` | the CLI | does not exist | the bundle is refused (code 1); unknown keys are ignored |
| settings of a hook | {FORMAT_VERSION} | the hook, the CLI | does not exist | is refused (code 42); an unknown key too (code 1) |
| run record | {RECORD_FORMAT_VERSION} | hooks, the CLI | is read | is refused before any write (code 42); unknown keys are ignored |
| upgrade record of a node | {VERSION} | hooks, the CLI | does not exist | the node is left alone, and the run exits with code 42; unknown keys are ignored |

",
        info::API_VERSION
    )
}

/// One test for all tables, because all of them write the same page.
#[test]
fn support_tables_show_what_tests_run() {
    generated(PAGE, "tests/tools/kubernetes", &kubernetes());
    generated(PAGE, "tests/tools", &deployers());
    generated(PAGE, "bundles/components", &components());
    generated(PAGE, "the program's constants", &formats());
}

#[test]
fn only_required_modules_are_pinned() {
    let text = "module a\n\ntool (\n\tk8s.io/b\n\tk8s.io/d/cmd\n)\n\nrequire k8s.io/a v1.2.3\n\nrequire (\n\tk8s.io/b v0.1.0 // indirect\n)\n\nreplace (\n\tk8s.io/c => k8s.io/c v0.3.0\n)\n";
    for (module, version) in [
        ("k8s.io/a", Some("1.2.3")),
        ("k8s.io/b", Some("0.1.0")),
        ("k8s.io/c", None),
        ("k8s.io/d/cmd", None),
    ] {
        assert_eq!(pinned(text, module), version, "{module}");
    }
}
