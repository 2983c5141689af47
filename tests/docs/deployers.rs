//! `docs/deployers.md` shows all results of the end-to-end tests with the real deployers
//! (`tests/data/deployers.json`). `UPDATE=1` updates its tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::root;

const PAGE: &str = "docs/deployers.md";
const SEEN: &str = "tests/data/deployers.json";
/// The columns, in the page's order.
const DEPLOYERS: [&str; 6] = ["Helm 3", "Helm 4", "helmfile", "Flux", "Argo CD", "argocd-helm"];
const END: &str = "<!-- end of table -->";

/// A table of the page: its name in the file, and the names of its rows in the page's order.
struct Table {
    name: &'static str,
    head: &'static str,
    columns: &'static [&'static str],
    rows: &'static [&'static str],
}

const TABLES: &[Table] = &[
    Table {
        name: "triggers",
        head: "What changes",
        columns: &DEPLOYERS,
        rows: &[
            "first install",
            "operator chart bumped",
            "driver version bumped",
            "hook image bumped",
            "policy changed",
            "values.yaml edited in the bundle",
            "previous bundle deployed again",
            "nothing changed",
            "refreshed by hand, nothing changed",
        ],
    },
    Table {
        name: "order",
        head: "What is deployed",
        columns: &DEPLOYERS,
        rows: &[
            "first install",
            "upgrade v25.10.1 → v26.3.1",
            "plugins of four nodes",
            "operator chart cannot be fetched",
        ],
    },
    Table {
        name: "outcomes",
        head: "What happens to a deployment",
        columns: &DEPLOYERS,
        rows: &[
            "success",
            "hook fails",
            "hook exceeds its budget",
            "hook's pod killed",
            "hook's node gone",
            "client killed, or controller restarted",
            "client interrupted (Ctrl-C)",
            "API server restarted",
            "second deployment while the first runs",
        ],
    },
    Table {
        name: "recovery",
        head: "What happened",
        columns: &DEPLOYERS,
        rows: &[
            "hook fails",
            "hook exceeds its budget",
            "hook's pod killed",
            "hook's node gone",
            "client killed, or controller restarted",
            "client interrupted (Ctrl-C)",
            "API server restarted",
            "second deployment while the first runs",
        ],
    },
    Table {
        name: "proof",
        head: "What happens",
        columns: &DEPLOYERS,
        rows: &[
            "a canary fails its test",
            "after the halt, without a command",
            "the previous bundle is deployed again",
            "after `gpu-rollout resume --accept NODE`",
            "a freeze lasts longer than the time limit",
            "after the freeze",
            "no maintenance window opens within the time limit",
            "deployed again with a window that is open",
        ],
    },
    Table {
        name: "network",
        head: "Subject",
        columns: &DEPLOYERS,
        rows: &["24.7.1 is installed", "NicClusterPolicy", "network drivers", "GPU Operator"],
    },
    Table {
        name: "moving",
        head: "Subject",
        columns: &["helmfile", "Flux", "Argo CD", "argocd-helm"],
        rows: &[
            "objects and pods",
            "its first deployment",
            "Helm's release Secrets",
            "the next upgrade",
        ],
    },
    Table {
        name: "leaving",
        head: "Subject",
        columns: &DEPLOYERS,
        rows: &[
            "components and hooks",
            "CRDs and namespaces",
            "their releases",
            "to be deleted by hand",
        ],
    },
];

/// Cells by table, row and deployer.
type Seen = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

fn seen() -> Seen {
    serde_json::from_str(&std::fs::read_to_string(root(SEEN)).unwrap()).unwrap()
}

/// Renders a table. Deployers with equal cells share a column.
fn markdown(table: &Table, rows: &BTreeMap<String, BTreeMap<String, String>>) -> String {
    let mut columns: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for deployer in table.columns {
        let cells: Vec<&str> =
            table.rows.iter().map(|row| rows[*row][*deployer].as_str()).collect();
        match columns.iter_mut().find(|(_, others)| *others == cells) {
            Some((deployers, _)) => deployers.push(deployer),
            None => columns.push((vec![deployer], cells)),
        }
    }
    let heads: Vec<String> = columns.iter().map(|(deployers, _)| deployers.join(", ")).collect();
    let mut text = format!(
        "| {} | {} |\n|---|{}\n",
        table.head,
        heads.join(" | "),
        "---|".repeat(columns.len())
    );
    for (index, row) in table.rows.iter().enumerate() {
        let cells: Vec<&str> = columns.iter().map(|(_, cells)| cells[index]).collect();
        writeln!(text, "| {row} | {} |", cells.join(" | ")).unwrap();
    }
    text
}

#[test]
fn page_shows_all_recorded_results() {
    let seen = seen();
    let names = |table: &Table| table.name.to_owned();
    assert_eq!(
        seen.keys().cloned().collect::<BTreeSet<_>>(),
        TABLES.iter().map(names).collect(),
        "tables of {SEEN}"
    );
    for table in TABLES {
        let rows = &seen[table.name];
        let known: BTreeSet<&str> = rows.keys().map(String::as_str).collect();
        assert_eq!(
            known,
            table.rows.iter().copied().collect(),
            "rows of table `{}` in {SEEN}",
            table.name
        );
        for (row, cells) in rows {
            let columns: BTreeSet<&str> = cells.keys().map(String::as_str).collect();
            assert_eq!(
                columns,
                table.columns.iter().copied().collect(),
                "row `{row}` of table `{}`: run its scenario for the others",
                table.name
            );
        }
    }
    check(PAGE, TABLES, &seen);
}

/// Checks that a page shows the tables as the file has them. With `UPDATE`, writes them.
fn check(name: &str, tables: &[Table], seen: &Seen) {
    let page = std::fs::read_to_string(root(name)).unwrap();
    let mut wanted = page.clone();
    for table in tables {
        let begin = format!("<!-- table: {} -->\n", table.name);
        let (before, rest) = wanted
            .split_once(&begin)
            .unwrap_or_else(|| panic!("{name} has no `{}`", begin.trim_end()));
        let (_, after) = rest
            .split_once(END)
            .unwrap_or_else(|| panic!("{name} has no `{END}` after `{}`", begin.trim_end()));
        wanted = format!("{before}{begin}{}{END}{after}", markdown(table, &seen[table.name]));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(name), wanted).unwrap();
    } else {
        assert!(page == wanted, "{name} differs from {SEEN}: run UPDATE=1 cargo test --test docs");
    }
}
