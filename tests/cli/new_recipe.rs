//! `gpu-rollout recipe new`: the new file and the commands that follow.

use crate::{program, recipe_in};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a test has a folder for temporary files")
}

/// It created a recipe with 30000 nodes, which `recipe check` refuses.
#[test]
fn new_recipe_takes_only_valid_node_counts() {
    for (nodes, expected) in [("0", 2), ("1", 0), ("2000", 0), ("20001", 2), ("30000", 2)] {
        let folder = folder();
        let new = ["new", "mine.yaml", "--gpu-nodes", nodes, "--extends=base"];
        assert_eq!(recipe_in(&folder, &new), Some(expected), "{nodes}");
        if expected == 0 {
            assert_eq!(recipe_in(&folder, &["check", "mine.yaml"]), Some(0), "{nodes}");
        }
    }
}

/// Regression: `recipe check` accepted what `bundle render` refused: one after the other, 20,000
/// nodes take longer than a time budget can be.
#[test]
fn check_refuses_what_cannot_be_rendered() {
    let folder = folder();
    let new = ["new", "mine.yaml", "--gpu-nodes", "20000", "--extends=base"];
    assert_eq!(recipe_in(&folder, &new), Some(0));
    assert_eq!(recipe_in(&folder, &["check", "mine.yaml"]), Some(1));
}

/// For `mine.txt`, it named `recipe check mine.txt`, which looks for a recipe of the library.
#[test]
fn new_recipe_passes_the_command_that_it_names() {
    for file in ["mine.yaml", "mine.txt", "mine"] {
        let folder = folder();
        let output = program()
            .args(["recipe", "new", file, "--gpu-nodes=9", "--extends=base"])
            .current_dir(&folder)
            .output()
            .expect("the program starts");
        let said = String::from_utf8(output.stderr).expect("it writes UTF-8");
        let (_, next) =
            said.trim_end().rsplit_once("gpu-rollout recipe ").expect("it names the next command");
        let next: Vec<&str> = next.split(' ').collect();
        assert_eq!(recipe_in(&folder, &next), Some(0), "{said}");
        let text = std::fs::read_to_string(folder.path().join(file)).expect("the new recipe");
        assert!(text.contains(&format!("gpu-rollout recipe {}\n", next.join(" "))), "{text}");
    }
}
