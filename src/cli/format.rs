//! The option `-o`: output for people or for programs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::printer::Printer;
use contract::exit::ExitCode;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// The output format of commands that read a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ListingFormat {
    /// For people, wrapped to the width of the terminal.
    #[default]
    Text,
    /// For people, without wrapping, and in full: a long list of nodes is not shortened.
    Wide,
    /// One JSON document.
    Json,
    /// One YAML document with the same fields.
    Yaml,
    /// One `node/NAME` per line.
    Name,
}

impl ListingFormat {
    /// Returns whether the output is a document for programs.
    pub(super) fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// Prints `document` for programs, `text` for people, or `names` for [`Self::Name`]. Returns
    /// the exit code of [`Printer::json`].
    pub(super) fn print(
        self,
        document: &impl Serialize,
        names: impl FnOnce() -> String,
        text: impl FnOnce(bool) -> String,
        printer: &mut Printer,
    ) -> ExitCode {
        match self {
            Self::Json => return printer.json(document),
            Self::Yaml => return printer.yaml(document),
            Self::Name => printer.data(&names()),
            Self::Text | Self::Wide => printer.data(&text(self == Self::Wide)),
        }
        ExitCode::Success
    }
}

/// The `-o json` document of most commands.
#[derive(Serialize, JsonSchema)]
pub(super) struct RolloutList<'a, T> {
    /// The rollouts of the cluster.
    pub(super) rollouts: &'a [T],
}

/// Returns the lines of `-o name`: each node once, sorted by name.
pub(super) fn node_names<'a>(nodes: impl Iterator<Item = &'a String>) -> String {
    let mut names: Vec<String> = nodes.map(|node| format!("node/{node}\n")).collect();
    names.sort();
    names.dedup();
    names.concat()
}
