//! Small files, and one way to lay out a module.

use crate::{expect_none, files};

/// The most lines that a file of ours may have: what does not fit is two concepts.
const WALL: usize = 500;

#[test]
fn no_file_of_ours_is_over_the_wall() {
    let endings = [".rs", ".sh", ".j2", ".tpl"];
    let all = ["src", "tests", "scripts", "templates", "charts"].into_iter().flat_map(|folder| files(folder, &endings));
    let findings: Vec<String> = all
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > WALL)
        .map(|(path, lines)| format!("{path}: {lines} lines; the wall is {WALL}: split it by concept"))
        .collect();
    expect_none(&findings);
}

#[test]
fn a_module_is_its_name_and_not_mod_rs() {
    let all = ["src", "tests"].into_iter().flat_map(|folder| files(folder, &["/mod.rs"]));
    let findings: Vec<String> = all.map(|(path, _)| format!("{path}: name it after its folder, beside it")).collect();
    expect_none(&findings);
}
