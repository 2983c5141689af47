//! `gpu-rollout bundle images`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::cli::table::table;
use crate::printer::Printer;
use bundle::images::{NodeKinds, images};
use contract::exit::ExitCode;
use contract::visible;
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
    /// Operating system of the GPU nodes, such as `ubuntu22.04` or `rhel9`, for images that are
    /// built per operating system; `-o list` requires it if the bundle has such images; repeatable
    #[arg(long = "node-os", value_name = "OS")]
    systems: Vec<String>,
    /// Architecture of the nodes, for images that are built per architecture; repeatable
    #[arg(long = "node-architecture", value_name = "ARCHITECTURE", default_value = "amd64")]
    architectures: Vec<String>,
    /// Kernel of the GPU nodes, such as `5.15.0-105-generic`, for images of precompiled drivers;
    /// repeatable
    #[arg(long = "node-kernel", value_name = "KERNEL")]
    kernels: Vec<String>,
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
        let nodes = NodeKinds {
            systems: self.systems,
            architectures: self.architectures,
            kernels: self.kernels,
        };
        let images: Vec<LocatedImage> = images
            .into_iter()
            .filter(|image| self.all || image.enabled)
            .flat_map(|image| nodes.images(image))
            .collect();
        let open = images.iter().any(|image| image.suffix.is_some());
        if open && self.output == ImagesFormat::List {
            let hint = "pass each operating system with --node-os, and each kernel with --node-kernel if drivers are precompiled; `kubectl get nodes -o wide` shows both";
            printer.error("some images are built for the operating system or the kernel of the nodes, which the bundle does not know", Some(hint));
            return ExitCode::Usage;
        }
        let mut code = ExitCode::Success;
        match self.output {
            ImagesFormat::Text => printer.data(&image_table(&images)),
            ImagesFormat::List => {
                let references: BTreeSet<String> =
                    images.iter().map(LocatedImage::reference).collect();
                // A line feed in a value must not add an image to the list.
                let lines = references.iter().map(|reference| visible::line(reference));
                printer.data(&lines.fold(String::new(), |text, line| text + &line + "\n"));
            }
            ImagesFormat::Json => {
                code = printer.json(&ImageList { images, unknown: unknown.clone() });
            }
        }
        if open {
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
