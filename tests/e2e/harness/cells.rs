//! The observed results of each deployer, as cells of tables. The repository contains them, the
//! documentation is generated from them, and a story fails if it observes a different result.
//! `UPDATE=1` stores the observed results.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::deployers::Kind;
use super::repository::repository;

/// Cells by table, row and column.
type Tables = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

/// One column of a table, while a story fills it.
pub(crate) struct Cells {
    table: &'static str,
    kind: Kind,
    seen: RefCell<Vec<(&'static str, String)>>,
}

impl Cells {
    /// Returns an empty column of a deployer.
    pub(crate) fn new(table: &'static str, kind: Kind) -> Self {
        Self { table, kind, seen: RefCell::default() }
    }

    /// Stores the observed result of a row.
    pub(crate) fn note(&self, row: &'static str, cell: impl Into<String>) {
        let cell = cell.into();
        eprintln!("{} · {} · {row}: {cell}", self.table, self.kind.column());
        self.seen.borrow_mut().push((row, cell));
    }

    /// Compares all observed results with the table in the repository.
    pub(crate) fn check(self) -> Result<()> {
        let seen = self.seen.into_inner();
        let column = self.kind.column();
        if std::env::var_os("UPDATE").is_some() {
            return update(self.table, column, seen);
        }
        let tables = read()?;
        let known = |row: &str| tables.get(self.table)?.get(row)?.get(column).map(String::as_str);
        let differs = |(row, cell): &(&'static str, String)| {
            let known = known(row);
            (known != Some(cell)).then(|| {
                format!("{row}: observed `{cell}`, the table has `{}`", known.unwrap_or("nothing"))
            })
        };
        let different: Vec<String> = seen.iter().filter_map(differs).collect();
        if !different.is_empty() {
            bail!(
                "{} of {column} differs from {} (UPDATE=1 stores the results):\n{}",
                self.table,
                file().display(),
                different.join("\n")
            );
        }
        Ok(())
    }
}

fn file() -> PathBuf {
    repository("tests/data/deployers.json")
}

fn read() -> Result<Tables> {
    let file = file();
    let text =
        std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))
}

fn update(table: &str, column: &str, seen: Vec<(&'static str, String)>) -> Result<()> {
    // Stories of several deployers may end at the same time.
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("cells.lock"))?;
    lock.lock()?;
    let mut tables = if file().exists() { read()? } else { Tables::new() };
    for (row, cell) in seen {
        tables
            .entry(table.to_owned())
            .or_default()
            .entry(row.to_owned())
            .or_default()
            .insert(column.to_owned(), cell);
    }
    std::fs::write(file(), format!("{}\n", serde_json::to_string_pretty(&tables)?))?;
    Ok(())
}
