//! `-o`: for people or for programs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::printer::Printer;
use contract::exit::ExitCode;

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputFormat {
    /// For people.
    Text,
    /// One JSON document.
    Json,
}

/// `-o` of commands that read a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ListingFormat {
    /// For people, as wide as the terminal.
    #[default]
    Text,
    /// For people: every node, and every column.
    Wide,
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
    /// `node/<name>` of the nodes that are not done, a line each.
    Name,
}

impl ListingFormat {
    /// Whether it is a document for programs.
    pub(super) fn is_document(self) -> bool {
        matches!(self, Self::Json | Self::Yaml)
    }

    /// Prints `document`, or for people `text` and as names `names`. The exit code is that of [`Printer::json`].
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

/// What `-o json` of most commands prints.
#[derive(Serialize, JsonSchema)]
pub(super) struct RolloutList<'a, T> {
    /// The rollouts of the cluster.
    pub(super) rollouts: &'a [T],
}

/// The lines of `-o name`, each node once and in the order of the names.
pub(super) fn node_names<'a>(nodes: impl Iterator<Item = &'a String>) -> String {
    let mut names: Vec<String> = nodes.map(|node| format!("node/{node}\n")).collect();
    names.sort();
    names.dedup();
    names.concat()
}
