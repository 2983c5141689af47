//! The pictures of the pages show the program's output in a terminal, in light and dark. `UPDATE=1`
//! updates them.

use std::fmt::Write;
use std::process::Command;

use crate::root;

/// The picture's name, the command that it shows, and the arguments that the test runs, with paths
/// in the repository.
const PICTURES: [(&str, &str, &[&str]); 3] = [
    (
        "simulate",
        "gpu-rollout simulate -r mine.yaml --runs 20",
        &["simulate", "-r", "tests/docs/pictures/mine.yaml", "--runs", "20"],
    ),
    (
        "check",
        "gpu-rollout recipe check wrong.yaml",
        &["recipe", "check", "tests/docs/pictures/wrong.yaml"],
    ),
    ("explain", "gpu-rollout explain nodes-failed", &["explain", "nodes-failed"]),
];

/// The width of a character, the height of a line and the margin, in units of the picture.
const CHARACTER: f64 = 7.8;
const LINE: f64 = 19.0;
const MARGIN: f64 = 18.0;
/// The width of the terminal, which wraps longer lines.
const COLUMNS: usize = 140;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Splits text into lines of at most `COLUMNS` characters.
fn folded(text: &str) -> Vec<String> {
    let fold = |line: &str| {
        let characters: Vec<char> = line.chars().collect();
        if characters.len() <= COLUMNS {
            return vec![line.to_owned()];
        }
        characters.chunks(COLUMNS).map(|part| part.iter().collect()).collect()
    };
    text.trim_end().lines().flat_map(fold).collect()
}

fn drawn(typed: &str, said: &str) -> String {
    let said = folded(said);
    let longest = said
        .iter()
        .map(|line| line.chars().count())
        .chain([typed.chars().count() + 2])
        .max()
        .unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let (width, height) =
        (longest as f64 * CHARACTER + 2.0 * MARGIN, (said.len() + 2) as f64 * LINE + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" role=\"img\" aria-label=\"{}\">\n\
         <style>\n\
         .ground {{ fill: #f6f8fa; stroke: #d0d7de; }} text {{ fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }}\n\
         .typed {{ font-weight: bold; }} .prompt {{ fill: #1a7f37; }}\n\
         @media (prefers-color-scheme: dark) {{ .ground {{ fill: #0d1117; stroke: #30363d; }} text {{ fill: #e6edf3; }} .prompt {{ fill: #3fb950; }} }}\n\
         </style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>\n",
        escaped(typed),
        width - 1.0,
        height - 1.0
    );
    let mut y = MARGIN + LINE * 0.75;
    writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{y}\"><tspan class=\"prompt\">$ </tspan><tspan class=\"typed\">{}</tspan></text>",
        escaped(typed)
    )
    .unwrap();
    y += LINE;
    for line in said {
        y += LINE;
        if !line.is_empty() {
            writeln!(
                svg,
                "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{}</text>",
                escaped(&line)
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}

#[test]
fn pictures_show_output_of_the_program() {
    for (name, typed, arguments) in PICTURES {
        let output = Command::new(env!("CARGO_BIN_EXE_gpu-rollout"))
            .args(arguments)
            .current_dir(root(""))
            .output()
            .unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat())
            .unwrap()
            .replace("tests/docs/pictures/", "");
        let expected = drawn(typed, &said);
        let path = root(&format!("docs/pictures/{name}.svg"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &expected).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == expected,
            "docs/pictures/{name}.svg is stale: UPDATE=1 cargo test --test docs\n{said}"
        );
    }
}
