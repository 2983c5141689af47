//! Why an air-gap archive cannot be made.

use std::io;
use std::path::PathBuf;

use crate::error::BundleError;
use crate::images::UnknownNodes;
use contract::exit::ExitCode;
use deployer::RenderError;

/// Why an air-gap archive cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AirGapError {
    /// The bundle cannot be read.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle is not what its recipe gives.
    #[error("the bundle in `{}` was edited after rendering; these edits would be lost if it is rendered again from its recipe behind the air gap:\n  {}", directory.display(), edits.join("\n  "))]
    Edited {
        /// The directory.
        directory: PathBuf,
        /// The edited files.
        edits: Vec<String>,
    },
    /// The recipe in the bundle does not give the releases of the bundle.
    #[error("cannot find out where the charts and images of the bundle come from: {0}")]
    Origin(String),
    /// Some images depend on the nodes.
    #[error(transparent)]
    UnknownNodes(#[from] UnknownNodes),
    /// The folder of the charts cannot be read.
    #[error("cannot read the folder `{}`: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The folder does not have every chart once.
    #[error("the folder `{}` must have each chart of the bundle once:\n  {}", folder.display(), problems.join("\n  "))]
    Charts {
        /// The folder.
        folder: PathBuf,
        /// What is missing or ambiguous.
        problems: Vec<String>,
        /// The commands that fetch the missing charts.
        commands: Vec<String>,
    },
    /// The README cannot be rendered, which is a bug.
    #[error(transparent)]
    Readme(#[from] RenderError),
}

impl AirGapError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Bundle(_) => "name a directory that `gpu-rollout bundle render` wrote",
            Self::Edited { .. } => {
                "move the edits into the recipe, render the bundle again with --force, and pack that; or undo the edits, pack the bundle, and make the edits again behind the air gap, in the bundle that you deploy"
            }
            Self::Origin(_) => "render the bundle again with this version of gpu-rollout",
            Self::UnknownNodes(nodes) => nodes.hint(),
            Self::Folder { .. } => "name a folder that you may read",
            Self::Charts { commands, .. } if commands.is_empty() => {
                "keep one file of each chart in the folder"
            }
            Self::Charts { commands, .. } => {
                return Some(format!(
                    "run these commands where you have Internet access, and then pack the bundle again:\n  {}",
                    commands.join("\n  ")
                ));
            }
            Self::Readme(_) => "this is a bug in gpu-rollout; please report it",
        };
        Some(hint.to_owned())
    }

    /// Returns the exit code of the command.
    pub fn code(&self) -> ExitCode {
        match self {
            Self::UnknownNodes(_) => ExitCode::Usage,
            Self::Readme(_) => ExitCode::Internal,
            Self::Bundle(_)
            | Self::Edited { .. }
            | Self::Origin(_)
            | Self::Folder { .. }
            | Self::Charts { .. } => ExitCode::Input,
        }
    }
}
