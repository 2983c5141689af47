//! Embeds `bundles/`: writes a list of every recipe, component, values, schema and CRD file, sorted
//! by path. Converts the catalog's tables to JSON. Compresses files that are large or rarely
//! needed, and embeds files with the same content once.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The highest compression level, because each build compresses only once.
const LEVEL: u8 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../bundles");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR for build scripts")?);
    // Cargo runs a build script in the package's folder.
    let root = PathBuf::from("../../bundles");
    let mut files = Vec::new();
    collect(&root, "", &mut files)?;
    files.sort();
    let mut packed: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let (mut statics, mut table) =
        (String::new(), String::from("static FILES: &[(&str, EmbeddedFile)] = &[\n"));
    for file in files {
        // The compiler resolves the folder, so that the source contains no path of the build
        // machine.
        if is_plain(&file) {
            writeln!(
                table,
                "    ({file:?}, EmbeddedFile::Plain(include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/../../bundles/\", {file:?})))),"
            )?;
            continue;
        }
        let (file, content) = if is_table(&file) {
            as_json(&root, &file)?
        } else {
            let content = fs::read(root.join(&file))?;
            (file, content)
        };
        let next = packed.len();
        let number = *packed.entry(content.clone()).or_insert(next);
        if number == next {
            fs::write(
                out.join(format!("{number}.packed")),
                miniz_oxide::deflate::compress_to_vec(&content, LEVEL),
            )?;
            let bytes = format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{number}.packed\"))");
            writeln!(statics, "static PACKED_{number}: PackedText = PackedText::new({bytes});")?;
        }
        writeln!(table, "    ({file:?}, EmbeddedFile::Packed(&PACKED_{number})),")?;
    }
    table.push_str("];\n");
    fs::write(out.join("bundles.rs"), format!("{statics}{table}"))?;
    Ok(())
}

/// Whether to embed a file uncompressed: recipes are small, and nearly every run reads some of
/// them.
fn is_plain(path: &str) -> bool {
    path.starts_with("recipes/")
}

/// Whether to convert a file to JSON: component descriptions and the compatibility table, which
/// only the program reads at run time.
fn is_table(path: &str) -> bool {
    path.ends_with("/component.yaml") || path == "compatibility.yaml"
}

/// Returns the table as JSON, with a matching file name.
fn as_json(root: &Path, file: &str) -> Result<(String, Vec<u8>), Box<dyn Error>> {
    let options = serde_yaml::options! { legacy_octal_numbers: true };
    let value: serde_json::Value =
        serde_yaml::from_str_with_options(&fs::read_to_string(root.join(file))?, options)
            .map_err(|error| format!("bundles/{file}: {error}"))?;
    Ok((file.replace(".yaml", ".json"), serde_json::to_vec(&value)?))
}

/// Whether to embed another file: CRDs, and keys, default values and schemas as JSON (the YAML of
/// the last two is only the source).
fn is_embedded(path: &str) -> bool {
    let ends_in = |wanted: &str| Path::new(path).extension().is_some_and(|ending| ending == wanted);
    ends_in("yaml") && (is_plain(path) || is_table(path) || path.contains("/crds/"))
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
