//! Embeds `bundles/`: writes a list of every recipe, component, values, schema and CRD file, sorted
//! by path. Converts the catalog's tables to JSON. Embeds files with the same content once. Does not
//! compress them: that would save 1.4 MB, and cost each render 5 % of its instructions.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../bundles");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?);
    // Cargo runs a build script in the package's folder.
    let root = PathBuf::from("../../bundles");
    let mut files = Vec::new();
    collect(&root, "", &mut files)?;
    let name = |file: &str| {
        if is_table(file) { file.replace(".yaml", ".json") } else { file.to_owned() }
    };
    files.sort_by_key(|file| name(file));
    let mut texts: BTreeMap<String, usize> = BTreeMap::new();
    let (mut statics, mut table) =
        (String::new(), String::from("static FILES: &[(&str, &str)] = &[\n"));
    for file in files {
        let mut text = fs::read_to_string(root.join(&file))?;
        if is_table(&file) {
            text = as_json(&file, &text)?;
        }
        let next = texts.len();
        let number = *texts.entry(text.clone()).or_insert(next);
        if number == next {
            // The compiler resolves the folder, so that the source contains no path of the build
            // machine.
            let source = if is_table(&file) {
                fs::write(out.join(format!("{number}.json")), &text)?;
                format!("env!(\"OUT_DIR\"), \"/{number}.json\"")
            } else {
                format!("env!(\"CARGO_MANIFEST_DIR\"), \"/../../bundles/\", {file:?}")
            };
            writeln!(statics, "static TEXT_{number}: &str = include_str!(concat!({source}));")?;
        }
        writeln!(table, "    ({:?}, TEXT_{number}),", name(&file))?;
    }
    table.push_str("];\n");
    fs::write(out.join("bundles.rs"), format!("{statics}{table}"))?;
    Ok(())
}

/// Whether to convert a file to JSON: component descriptions and the compatibility table, which
/// only the program reads at run time.
fn is_table(path: &str) -> bool {
    path.ends_with("/component.yaml") || path == "compatibility.yaml"
}

/// Returns a table as JSON.
fn as_json(file: &str, text: &str) -> Result<String, Box<dyn Error>> {
    let options = serde_yaml::options! { legacy_octal_numbers: true };
    let value: serde_json::Value = serde_yaml::from_str_with_options(text, options)
        .map_err(|error| format!("bundles/{file}: {error}"))?;
    Ok(serde_json::to_string(&value)?)
}

/// Whether to embed another file: CRDs, and keys, default values and schemas as JSON (the YAML of
/// the last two is only the source).
fn is_embedded(path: &str) -> bool {
    let ends_in = |wanted: &str| Path::new(path).extension().is_some_and(|ending| ending == wanted);
    ends_in("yaml") && (path.starts_with("recipes/") || is_table(path) || path.contains("/crds/"))
        || ends_in("json")
            && (path.ends_with("/values.json")
                || path.ends_with("/keys.json")
                || path.contains("/schemas/"))
}

fn collect(root: &Path, below: &str, files: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            collect(root, &path, files)?;
        } else if is_embedded(&path) {
            files.push(path);
        }
    }
    Ok(())
}
