//! `-o`: for people or for programs.

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
