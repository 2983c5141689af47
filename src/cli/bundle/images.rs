//! `gpu-rollout bundle images`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::printer::Printer;
use bundle::images::images;
use contract::exit::ExitCode;
use release::images::{ImageList, LocatedImage};

/// Arguments of `gpu-rollout bundle images`.
#[derive(Debug, clap::Args)]
pub struct ImagesArguments {
    /// The bundle's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How the images are written
    #[arg(short, long, value_enum, default_value_t = ImagesFormat::Text)]
    output: ImagesFormat,
    /// Also images of what the values switch off
    #[arg(long)]
    all: bool,
    /// Operating system of the GPU nodes, such as `ubuntu22.04` or `rhel9`, for images that are built for one; may be repeated
    #[arg(long = "node-os", value_name = "OS")]
    systems: Vec<String>,
    /// Architecture of the nodes, for images that are built for one; may be repeated
    #[arg(long = "node-architecture", value_name = "ARCHITECTURE", default_value = "amd64")]
    architectures: Vec<String>,
}

/// Forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ImagesFormat {
    /// A table: which release pulls what, and where its values name it
    Text,
    /// One JSON object
    Json,
    /// One reference on each line, as tools that mirror images read it
    List,
}

impl ImagesArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let ImageList { images, unknown } = match images(&self.directory) {
            Ok(found) => found,
            Err(error) => {
                printer.error(&error.to_string(), Some("name a directory that `gpu-rollout bundle render` has written"));
                return ExitCode::Input;
            }
        };
        let images: Vec<LocatedImage> =
            images.into_iter().filter(|image| self.all || image.enabled).flat_map(|image| self.expand(image)).collect();
        let open = images.iter().any(|image| image.suffix.is_some());
        if open && self.output == ImagesFormat::List {
            let hint = "name them with --node-os, once for each: `kubectl get nodes -o wide` shows them";
            printer.error("some images are built for the operating system of the nodes, which the bundle does not know", Some(hint));
            return ExitCode::Usage;
        }
        let mut code = ExitCode::Success;
        match self.output {
            ImagesFormat::Text => printer.data(&table(&images)),
            ImagesFormat::List => {
                let references: BTreeSet<String> = images.iter().map(LocatedImage::reference).collect();
                printer.data(&references.into_iter().fold(String::new(), |text, reference| text + &reference + "\n"));
            }
            ImagesFormat::Json => code = printer.json(&ImageList { images, unknown: unknown.clone() }),
        }
        if open {
            printer.note("note: `{os}` and `{architecture}` are the node's; --node-os names them");
        }
        for reason in &unknown {
            printer.note(&format!("note: images not known: {reason}"));
        }
        code
    }

    /// The image for each kind of node, if it differs between them.
    fn expand(&self, image: LocatedImage) -> Vec<LocatedImage> {
        let Some(suffix) = image.suffix.clone().filter(|_| !self.systems.is_empty()) else { return vec![image] };
        let mut expanded = Vec::new();
        for system in &self.systems {
            for architecture in &self.architectures {
                let end = suffix.replace("{os}", system).replace("{architecture}", architecture);
                let tag = image.tag.as_deref().map(|tag| format!("{tag}{end}"));
                let one = LocatedImage { tag, suffix: None, ..image.clone() };
                if !expanded.contains(&one) {
                    expanded.push(one);
                }
            }
        }
        expanded
    }
}

fn table(images: &[LocatedImage]) -> String {
    let width = |text: fn(&LocatedImage) -> String| images.iter().map(|image| text(image).len()).max().unwrap_or_default();
    let (release, reference) =
        (width(|image| image.release.clone()).max("RELEASE".len()), width(LocatedImage::reference).max("IMAGE".len()));
    let mut text = format!("{:release$}  {:reference$}  PLACE\n", "RELEASE", "IMAGE");
    for image in images {
        let off = if image.enabled { "" } else { " (switched off)" };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{:release$}  {:reference$}  {}{off}", image.release, image.reference(), image.place);
    }
    text
}
