//! `gpu-rollout bundle images`.

use std::path::PathBuf;

use crate::cli::table::table;
use crate::printer::Printer;
use bundle::images::{NodeKinds, images, list};
use contract::exit::ExitCode;
use release::images::{ImageList, LocatedImage};

/// Arguments of `gpu-rollout bundle images`.
#[derive(Debug, clap::Args)]
pub struct ImagesArguments {
    /// Directory of the bundle
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ImagesFormat::Text)]
    output: ImagesFormat,
    /// Include images that the values disable
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    nodes: NodeKindOptions,
}

/// The kinds of nodes that pull the images.
#[derive(Debug, clap::Args)]
pub(super) struct NodeKindOptions {
    /// Operating system of the GPU nodes, such as `ubuntu22.04` or `rhel9`, for images that are
    /// built per operating system; archives and `-o list` need it if the bundle has such images; repeatable
    #[arg(long = "node-os", value_name = "OS", value_parser = system)]
    systems: Vec<String>,
    /// Architecture of the nodes, for images that are built per architecture; repeatable
    #[arg(long = "node-architecture", value_name = "ARCHITECTURE", value_parser = tag_part, default_value = "amd64")]
    architectures: Vec<String>,
    /// Kernel of the GPU nodes, such as `5.15.0-105-generic`, for images of precompiled drivers;
    /// repeatable
    #[arg(long = "node-kernel", value_name = "KERNEL", value_parser = tag_part)]
    kernels: Vec<String>,
}

/// Accepts what the tag of an image can end with (OCI distribution specification, `reference`).
fn tag_part(text: &str) -> Result<String, String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if text.is_empty() || !text.chars().all(is_allowed) {
        return Err(
            "it becomes the end of an image's tag, which has only letters, digits, `.`, `_` and `-`"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

fn system(text: &str) -> Result<String, String> {
    tag_part(text).map_err(|error| error + ": write `ubuntu22.04` for Ubuntu 22.04")
}

impl NodeKindOptions {
    /// Converts the options.
    pub(super) fn kinds(self) -> NodeKinds {
        let Self { systems, architectures, kernels } = self;
        NodeKinds { systems, architectures, kernels }
    }
}

/// The output formats of `bundle images`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ImagesFormat {
    /// A table: which release pulls which image, and where its values name it
    Text,
    /// One JSON object
    Json,
    /// One image reference per line, for tools that mirror images
    List,
}

impl ImagesArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let ImageList { images, unknown } = match images(&self.directory) {
            Ok(found) => found,
            Err(error) => {
                printer.error(&error.to_string(), Some(error.hint()));
                return ExitCode::Input;
            }
        };
        let nodes = self.nodes.kinds();
        let images: Vec<LocatedImage> = images
            .into_iter()
            .filter(|image| self.all || image.enabled)
            .flat_map(|image| nodes.images(image))
            .collect();
        let list = list(&images);
        let mut code = ExitCode::Success;
        match self.output {
            ImagesFormat::Text => printer.data(&image_table(&images)),
            ImagesFormat::List => match &list {
                Ok(list) => printer.data(list),
                Err(error) => {
                    printer.error(&error.to_string(), Some(error.hint()));
                    return ExitCode::Usage;
                }
            },
            ImagesFormat::Json => {
                code = printer.json(&ImageList { images, unknown: unknown.clone() });
            }
        }
        if list.is_err() {
            printer.note(
                "note: what is in braces depends on the node; --node-os, --node-architecture and --node-kernel set it",
            );
        }
        for reason in &unknown {
            printer.note(&format!("note: unknown images: {reason}"));
        }
        code
    }
}

fn image_table(images: &[LocatedImage]) -> String {
    let row = |image: &LocatedImage| {
        let off = if image.enabled { "" } else { " (switched off)" };
        vec![image.release.clone(), image.reference(), format!("{}{off}", image.place)]
    };
    table(&["RELEASE", "IMAGE", "PLACE"], &images.iter().map(row).collect::<Vec<_>>(), None)
}
