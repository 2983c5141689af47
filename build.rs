//! Embeds `bundles/`: writes a table of every recipe, component, values and CRD file, sorted by path.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=bundles");
    // A build script runs in the package's folder.
    let root = PathBuf::from("bundles");
    let mut files = Vec::new();
    collect(&root, "", &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in files {
        // The compiler resolves the folder, so that no path of the building machine gets into the source.
        writeln!(table, "    ({file:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/bundles/\", {file:?}))),")?;
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?;
    fs::write(PathBuf::from(out).join("bundles.rs"), table)?;
    Ok(())
}

/// What is embedded: recipes, component descriptions, CRDs, and the default values as JSON (their YAML is only the source).
fn is_embedded(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let yaml = Path::new(file).extension().is_some_and(|ending| ending == "yaml");
    file == "values.json" || (yaml && (path.starts_with("recipes/") || file == "component.yaml" || path.contains("/crds/")))
}

fn collect(root: &Path, below: &str, files: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if is_embedded(&path) {
            files.push(path);
        }
    }
    Ok(())
}
