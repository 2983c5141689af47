//! Documented commands that deploy a hook again keep the values of its newest revision.

/// Helm's flags such as `--reuse-values` use the values of the last successful revision. After a
/// failed hook, they would restore the previous mode.
#[test]
fn documented_upgrade_never_reuses_older_values() {
    let mut wrong = Vec::new();
    for pattern in ["README.md", "docs", "charts", "templates", "src", "crates"] {
        for (path, text) in texts(&crate::root(pattern)) {
            let commands = text.replace("\\\n", " ");
            let reuses =
                |line: &&str| line.contains("helm upgrade") && line.contains("reuse-values");
            wrong.extend(commands.lines().filter(reuses).map(|line| format!("{path}: {line}")));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

fn texts(path: &std::path::Path) -> Vec<(String, String)> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("a directory of the project");
        return entries.flat_map(|entry| texts(&entry.expect("an entry").path())).collect();
    }
    // Pictures are not text.
    std::fs::read_to_string(path)
        .map(|text| vec![(path.display().to_string(), text)])
        .unwrap_or_default()
}
