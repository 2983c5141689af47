//! Puts hostile texts into every string of a recipe, from the schema. Each text must be refused
//! with position and hint, or have no other effect than its literal value in every file of every
//! bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::sync::LazyLock;

use bundle::{BundleInput, BundleTree, build};
use catalog::hook_chart;
use contract::grammar::grammar;
use deployer::{BundleSource, DEPLOYERS, Deployer, SourceNeed};
use diagnostics::diagnostic::{Diagnostics, Severity};
use recipe::load::{ValidRecipe, load};
use recipe::read::{ReadError, TextReader};
use recipe::schema::TypeShape;
use regex::Regex;
use release::{EmbeddedCatalog, PlanOptions, plan};
use serde_json::{Value, json};

use super::hostile::{PAYLOADS, is_helm_template, is_yaml};

pub(crate) mod real;

/// The benign text in fields that take any text.
const PLACEHOLDER: &str = "zqexample";

/// An example of a grammar that occurs nowhere else in a bundle.
fn example(name: &str) -> String {
    match name {
        // Keys are next to values.
        "labelKey" => "zqkey.com/key".to_owned(),
        name => grammar(name).unwrap().example.replacen("example", PLACEHOLDER, 1),
    }
}

/// The position of a string in a recipe.
#[derive(Clone, Debug)]
struct Field {
    /// Keys and indexes; the index of a component is chosen later.
    path: Vec<String>,
    /// Whether the last key itself is the text.
    is_key: bool,
    /// An accepted example.
    example: String,
}

/// Every text of the schema.
fn fields() -> Vec<Field> {
    fn visit(path: &[String], shape: TypeShape, fields: &mut Vec<Field>) {
        let below = |key: &str| [path, &[key.to_owned()]].concat();
        let last = path.last().map_or("", String::as_str);
        if shape.takes("string") || shape.words().is_some() {
            let word = shape.words().and_then(|words| words[0].as_str().map(str::to_owned));
            let example = match (shape.name(), shape.grammar()) {
                (Some("Duration"), _) => "2h".to_owned(),
                (Some("Count" | "RampShare" | "AcceptanceNodes"), _) => "20%".to_owned(),
                (Some("MaintenanceWindow"), _) => "daily 00:00-24:00 UTC".to_owned(),
                _ if path.iter().any(|key| key == "after") => "gpu-operator".to_owned(),
                (_, Some("line" | "text")) => PLACEHOLDER.to_owned(),
                (_, Some("driverVersion")) if path[1] == "ofedDriver" => {
                    "doca9.9.9-zqexample.1".to_owned()
                }
                (_, Some("driverVersion")) => "999.126.20".to_owned(),
                (_, Some("chartVersion")) => "9.8.7".to_owned(),
                (_, Some("configName")) => "other".to_owned(),
                (_, Some(name)) => example(name),
                (_, None) => {
                    word.unwrap_or_else(|| panic!("{path:?} has neither a grammar nor words"))
                }
            };
            fields.push(Field { path: path.to_vec(), is_key: false, example });
            return;
        }
        for key in shape.keys() {
            visit(&below(key), shape.property(key).unwrap(), fields);
        }
        if let Some(items) = shape.items() {
            visit(&below("0"), items, fields);
        }
        if !shape.takes("object") || shape.keys().next().is_some() {
            return;
        }
        let key = shape.key_grammar().map_or_else(|| PLACEHOLDER.to_owned(), example);
        match last {
            // Kinds that the catalog knows; the texts are below them.
            "customResources" => {
                let env =
                    ["NicClusterPolicy", "ofedDriver", "env", "0", "value"].map(str::to_owned);
                fields.push(Field {
                    path: [path, &env].concat(),
                    is_key: false,
                    example: PLACEHOLDER.to_owned(),
                });
            }
            "configs" => {}
            // The second test of the bases has one.
            "podTemplate" => {
                let text = ["spec", "containers", "0", "args", "0"].map(str::to_owned);
                let mut path = [path, &text].concat();
                "1".clone_into(&mut path[2]);
                fields.push(Field { path, is_key: false, example: PLACEHOLDER.to_owned() });
            }
            // The bases have this file. Its text is a template, and must reach Helm unchanged.
            "manifests" => {
                let file = below("own.yaml");
                let text = |key: &str, example: &str| Field {
                    path: [&file[..], &[key.to_owned()]].concat(),
                    is_key: false,
                    example: example.to_owned(),
                };
                fields.push(text("when", "before"));
                fields.push(text("template", "# zqexample"));
                fields.push(Field { path: file, is_key: true, example: key });
            }
            "values" | "manifestValues" => {
                fields.push(Field {
                    path: below("text"),
                    is_key: false,
                    example: PLACEHOLDER.to_owned(),
                });
                fields.push(Field {
                    path: [path, &["map".to_owned(), "text".to_owned()]].concat(),
                    is_key: true,
                    example: key.clone(),
                });
            }
            _ => {
                let value = shape
                    .further()
                    .and_then(TypeShape::grammar)
                    .map_or_else(|| PLACEHOLDER.to_owned(), example);
                fields.push(Field { path: below(&key), is_key: true, example: key.clone() });
                // The text must not be in its own key.
                let key = if key == value { "zqkey".to_owned() } else { key };
                fields.push(Field { path: below(&key), is_key: false, example: value });
            }
        }
    }
    let mut fields = Vec::new();
    visit(&[], TypeShape::recipe(), &mut fields);
    fields
}

/// Puts `text` into a recipe.
fn put(recipe: &Value, field: &Field, text: &str) -> Value {
    let mut changed = recipe.clone();
    let mut at = &mut changed;
    let (last, parents) = field.path.split_last().unwrap();
    for key in field.path.iter().take(parents.len()) {
        at = step(at, key);
    }
    if field.is_key {
        if !at.is_object() {
            *at = json!({});
        }
        let map = at.as_object_mut().unwrap();
        let value = map.remove(last).unwrap_or_else(|| json!("example"));
        map.insert(text.to_owned(), value);
    } else {
        *step(at, last) = json!(text);
    }
    changed
}

fn step<'a>(at: &'a mut Value, key: &str) -> &'a mut Value {
    if let Ok(index) = key.parse::<usize>() {
        if !at.is_array() {
            *at = json!([]);
        }
        let list = at.as_array_mut().unwrap();
        while list.len() <= index {
            list.push(Value::Null);
        }
        return &mut list[index];
    }
    if !at.is_object() {
        *at = json!({});
    }
    at.as_object_mut().unwrap().entry(key).or_insert(Value::Null)
}

struct Text(String);

impl TextReader for Text {
    fn file(&mut self, _: &str) -> Result<String, ReadError> {
        Err(ReadError::Missing)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Ok(self.0.clone())
    }
}

/// Reads a recipe from JSON, which is YAML and does not depend on our own writers.
pub(crate) fn read(recipe: &Value) -> Result<ValidRecipe, Diagnostics> {
    let mut ascii = String::new();
    for character in recipe.to_string().chars() {
        if matches!(character, ' '..='~') {
            ascii.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(ascii, "\\u{unit:04x}").unwrap();
        }
    }
    load("-", &[], &mut Text(ascii))
}

/// The bundles of a recipe, for every deployer.
pub(crate) fn bundles(
    loaded: &ValidRecipe,
    options: &PlanOptions,
) -> Vec<(&'static str, BundleTree)> {
    DEPLOYERS.iter().map(|deployer| (deployer.name, bundle(loaded, options, *deployer))).collect()
}

/// The deployers that can deploy a recipe.
fn able(loaded: &ValidRecipe) -> Vec<Deployer> {
    let mut components = loaded.recipe.components.iter();
    let has_kustomization = components.any(|component| component.kustomize.is_some());
    let is_able = |deployer: &&Deployer| !has_kustomization || !deployer.name.starts_with("helm");
    DEPLOYERS.iter().filter(is_able).copied().collect()
}

/// The bundle for one of them.
fn bundle(loaded: &ValidRecipe, options: &PlanOptions, deployer: Deployer) -> BundleTree {
    let plan = plan(&loaded.recipe, &EmbeddedCatalog, options).unwrap();
    let source = BundleSource::new("https://git.example.com/fleet.git", "main", "bundles").unwrap();
    let source = (deployer.source == SourceNeed::Rendered).then_some(&source);
    build(BundleInput {
        recipe: &loaded.recipe,
        plan: &plan,
        options,
        deployer,
        hook_chart: hook_chart::contents(),
        source,
    })
    .unwrap()
}

/// Digests change with every content.
fn without_digests(text: &str) -> String {
    static DIGESTS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[0-9a-f]{64}|(?:[+_]|\b)d[0-9a-f]{12}|-[0-9a-f]{8}\b").unwrap()
    });
    DIGESTS.replace_all(text, "DIGEST").into_owned()
}

/// The actions of a Go template, but for those that print braces.
fn actions(text: &str) -> Vec<String> {
    let text = text.replace("{{ \"{{\" }}", "");
    text.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().to_owned()).collect()
}

/// The files that are the same in both bundles and have nothing to do with the text.
fn unchanged(found: &BundleTree, meant: &BundleTree, example: &str) -> BTreeSet<String> {
    let is_same = |path: &str, content: &[u8]| {
        meant.get(path).is_some_and(|file| *file.content == *content)
            && !std::str::from_utf8(content).unwrap().contains(example)
    };
    found
        .files()
        .filter(|file| is_same(&file.path, &file.content))
        .map(|file| file.path.clone())
        .collect()
}

/// Returns the content of a bundle's files: YAML as values, other files as text. Replaces `from`
/// with `to`.
fn meaning(
    tree: &BundleTree,
    leave_out: &BTreeSet<String>,
    (from, to): (&str, &str),
) -> BTreeMap<String, Value> {
    fn replaced(value: Value, from: &str, to: &str) -> Value {
        match value {
            Value::String(text) => without_digests(&text.replace(from, to)).into(),
            Value::Array(items) => items.into_iter().map(|item| replaced(item, from, to)).collect(),
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .map(|(key, value)| {
                        (without_digests(&key.replace(from, to)), replaced(value, from, to))
                    })
                    .collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
    let mean = |path: &str, text: &str| {
        if is_helm_template(path) {
            json!(actions(&text.replace(from, to)))
        } else if is_yaml(path) {
            replaced(
                serde_yaml::from_multiple::<Value>(text)
                    .unwrap_or_else(|error| panic!("{path}: {error}\n{text}"))
                    .into(),
                from,
                to,
            )
        } else {
            json!(without_digests(&text.replace(from, to)))
        }
    };
    let files =
        tree.files().filter(|file| file.path != "checksums.txt" && !leave_out.contains(&file.path));
    files
        .map(|file| {
            (
                without_digests(&file.path.replace(from, to)),
                mean(&file.path, std::str::from_utf8(&file.content).unwrap()),
            )
        })
        .collect()
}

/// Recipes that together can contain every field.
fn bases() -> Vec<Value> {
    let base = |name: &str| {
        yaml::from_str(&fs::read_to_string(format!("tests/render/injection/{name}.yaml")).unwrap())
            .unwrap()
    };
    ["assist", "drive", "dra", "kustomization"].map(base).into()
}

/// The first recipe, and the first component in it, in which the field takes its example.
fn place(field: &Field, bases: &[Value]) -> Result<(Value, Field, ValidRecipe), String> {
    let mut said = Vec::new();
    for base in bases {
        let count = base["components"].as_array().unwrap().len();
        for component in 0..count {
            let mut field = field.clone();
            if field.path[0] == "components" {
                field.path[1] = (count - 1 - component).to_string();
            } else if component > 0 {
                break;
            }
            match read(&put(base, &field, &field.example)) {
                Ok(loaded)
                    if plan(&loaded.recipe, &EmbeddedCatalog, &PlanOptions::default()).is_ok() =>
                {
                    return Ok((base.clone(), field, loaded));
                }
                Ok(_) => said.push("no plan".to_owned()),
                Err(findings) => said.push(findings.render_plain()),
            }
        }
    }
    Err(said.join("\n"))
}

/// A quarter of the payloads for each field, another one for the next field.
#[test]
fn sampled_hostile_texts_in_fields_are_harmless() {
    attack_all(4);
}

#[test]
#[ignore = "takes minutes (make e2e)"]
fn all_hostile_texts_in_fields_are_harmless() {
    attack_all(1);
}

/// Puts one of `step` payloads into every field.
fn attack_all(step: usize) {
    let (bases, fields) = (bases(), fields());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let attack = |start: usize| {
            let mine = fields.iter().enumerate().skip(start).step_by(threads);
            mine.fold(Outcome::default(), |outcome, (index, field)| {
                outcome.attack(field, &bases, (index % step, step))
            })
        };
        let running: Vec<_> =
            (0..threads).map(|start| scope.spawn(move || attack(start))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (accepted, problems) = outcomes.into_iter().fold(
        (BTreeSet::new(), Vec::new()),
        |(mut accepted, mut problems), outcome| {
            accepted.extend(outcome.accepted);
            problems.extend(outcome.problems);
            (accepted, problems)
        },
    );
    assert!(accepted.iter().any(|path| path.ends_with("values.text")), "{accepted:?}");
    // The first of each field.
    let mut seen = BTreeSet::new();
    let first = problems
        .iter()
        .filter(|problem| seen.insert(problem.split(']').next().unwrap_or_default().to_owned()));
    let shown: Vec<String> = first.map(|problem| problem.chars().take(900).collect()).collect();
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), shown.join("\n\n"));
}

/// The results of the payloads.
#[derive(Default)]
struct Outcome {
    /// Fields that took one.
    accepted: BTreeSet<String>,
    problems: Vec<String>,
}

impl Outcome {
    /// Puts every payload into a field.
    fn attack(mut self, field: &Field, bases: &[Value], (skip, step): (usize, usize)) -> Self {
        let (base, field, loaded) = match place(field, bases) {
            Ok(found) => found,
            Err(said) => {
                self.problems
                    .push(format!("{:?} takes no `{}`:\n{said}", field.path, field.example));
                return self;
            }
        };
        let long = "x".repeat(5000);
        let behind = PAYLOADS
            .iter()
            .skip(field.path.len() % 3)
            .step_by(3)
            .map(|payload| format!("{}{payload}", field.example));
        let payloads =
            PAYLOADS.iter().map(|payload| (*payload).to_owned()).chain(behind).chain([long]);
        let mut benign: BTreeMap<&str, BundleTree> = BTreeMap::new();
        // Every payload meets one deployer, and every deployer many payloads.
        let able = able(&loaded);
        for (payload, deployer) in payloads.skip(skip).step_by(step).zip(able.iter().cycle()) {
            let loaded = match read(&put(&base, &field, &payload)) {
                Ok(changed) => {
                    benign
                        .entry(deployer.name)
                        .or_insert_with(|| bundle(&loaded, &PlanOptions::default(), *deployer));
                    changed
                }
                Err(findings) => {
                    self.refused(&field, &payload, &findings);
                    continue;
                }
            };
            self.accepted.insert(field.path.join("."));
            if plan(&loaded.recipe, &EmbeddedCatalog, &PlanOptions::default()).is_err() {
                self.problems
                    .push(format!("{:?}: {payload:?} is taken, and there is no plan", field.path));
                continue;
            }
            // Numbers are written as such, and helmfile and Flux name repositories after their
            // addresses.
            if payload == "0644" || field.path.last().is_some_and(|key| key == "repository") {
                continue;
            }
            let (found, meant) =
                (bundle(&loaded, &PlanOptions::default(), *deployer), &benign[deployer.name]);
            let same = unchanged(&found, meant, &field.example);
            let (found, meant) = (
                meaning(&found, &same, ("\u{0}\u{0}", "")),
                meaning(meant, &same, (&field.example, &payload)),
            );
            for path in
                found.keys().chain(meant.keys()).filter(|path| found.get(*path) != meant.get(*path))
            {
                let says = |files: &BTreeMap<String, Value>| {
                    files.get(path).map_or_else(
                        || "nothing".to_owned(),
                        |value| value.to_string().chars().take(500).collect(),
                    )
                };
                self.problems.push(format!(
                    "{:?}: {payload:?} with {deployer}: {path} says\n{}\nand is to say\n{}",
                    field.path,
                    says(&found),
                    says(&meant)
                ));
            }
        }
        self
    }

    /// A refusal names the place, and says what to do.
    fn refused(&mut self, field: &Field, payload: &str, findings: &Diagnostics) {
        let mut errors = findings.list.iter().filter(|finding| finding.severity == Severity::Error);
        let says_how = |message: &str| {
            ["expected", "must be", "such as"].iter().any(|words| message.contains(words))
        };
        if !errors.any(|error| {
            error.place.is_some() && (!error.hints.is_empty() || says_how(&error.message))
        }) {
            self.problems.push(format!(
                "{:?}: {payload:?} is refused without place or hint:\n{}",
                field.path,
                findings.render_plain()
            ));
        }
    }
}
