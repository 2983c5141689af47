//! `gpu-rollout bundle`.

use crate::printer::Printer;
use contract::exit::ExitCode;

pub mod archive;
pub mod diff;
pub mod facts;
pub mod images;
pub mod parity;
pub mod pull;
pub mod push;
mod registry_access;
pub mod render;
pub mod verify;

/// Arguments of `gpu-rollout bundle`.
#[derive(Debug, clap::Args)]
pub struct BundleArguments {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BundleCommand {
    /// Render recipes into bundles for one or more deployers
    ///
    /// A bundle is a directory of files that a deployer installs. `render` creates it from a
    /// recipe, and replaces an existing bundle as a whole. It refuses to replace an edited bundle
    /// without --force.
    Render(Box<render::RenderArguments>),
    /// Check whether a bundle was edited, and whether it is consistent
    ///
    /// Use it before you deploy, and after you have edited a bundle. It prints one finding per
    /// line: each edited file, and edits that break the bundle, such as a new version of a component
    /// whose hook and CRDs are still those of the old one (docs/bundles.md lists all such edits).
    /// Every edit gives exit code 1, even if it breaks nothing: read the findings. Exit code 0 means
    /// that the content of every file is as `render` wrote it.
    ///
    /// With --key, the first check is the signature of `checksums.txt`, which cosign makes. If it
    /// is missing or not valid, the command exits with 1, and checks nothing else. The command does
    /// not verify certificates: use `cosign verify-blob` for signatures without a key.
    #[command(after_help = "Examples:
  gpu-rollout bundle verify bundle
  gpu-rollout bundle verify bundle --key cosign.pub

Sign a bundle:
  cosign sign-blob --key cosign.key --bundle bundle/checksums.txt.sigstore.json bundle/checksums.txt")]
    Verify(verify::VerifyArguments),
    /// Show the differences between two versions of a bundle
    ///
    /// Use it before you deploy a new version of a bundle. It shows the changed releases, versions,
    /// values and files, and which hooks fire. It does not list `recipe.yaml`, `bundle-info.yaml`,
    /// `checksums.txt` and its signature, which no deployer uses. It exits with 0 if there is no
    /// difference, and with 3 if there is any.
    #[command(after_help = "Examples:
  gpu-rollout bundle diff old new
  gpu-rollout bundle diff old new -o json")]
    Diff(diff::DiffArguments),
    /// Show what a bundle deploys
    ///
    /// Use it to see what a bundle does, independently of its deployer. It shows releases, order,
    /// charts, values, timeouts, and the hooks with their rights.
    #[command(after_help = "Examples:
  gpu-rollout bundle facts bundle
  gpu-rollout bundle facts bundle -o json")]
    Facts(facts::FactsArguments),
    /// Compare what bundles deploy, for the same or different deployers
    ///
    /// Use it when you move from one deployer to another. It shows what differs, and what a
    /// deployer cannot express. It exits with 0 if the bundles deploy the same things, and with 3
    /// if they do not.
    #[command(after_help = "Example:
  gpu-rollout bundle parity out/my-cluster/helm out/my-cluster/flux")]
    Parity(parity::ParityArguments),
    /// List the images that a bundle pulls, including the hook's image
    ///
    /// Use it to mirror images into another registry. For an air gap, `bundle archive` packs this
    /// list, but not the images, with the bundle and its charts.
    #[command(after_help = "Examples:
  gpu-rollout bundle images bundle
  gpu-rollout bundle images bundle -o list --node-os ubuntu22.04")]
    Images(images::ImagesArguments),
    /// Pack a bundle, its charts and its image list for an air gap
    ///
    /// Use it to deploy where no machine reaches the Internet. The archive contains the bundle, the
    /// packaged charts of the vendors, the list of all images, and checksums, all in the folder
    /// RECIPE-air-gap. Its README.md has the commands to check the files, to copy the images, to
    /// deploy, and to render the bundle again without network.
    ///
    /// This command needs no network either: it takes the charts from the directory CHARTS. If some
    /// are missing there, it names all of them with the `helm pull` commands that fetch them. The
    /// same bundle and charts give the same archive, byte for byte.
    ///
    /// The images are not in the archive: a registry serves them (docs/how-to/air-gap.md).
    #[command(after_help = "Examples:
  gpu-rollout bundle render -r mine.yaml -d helm -o bundle --registry-mirror registry.example.com
  gpu-rollout bundle archive bundle -o mine.tar.gz --charts charts --node-os ubuntu22.04
Behind the air gap, in a new directory:
  tar xzf mine.tar.gz && cd mine-air-gap
  sha256sum --check --quiet checksums.txt && gpu-rollout bundle verify bundle
  ./bundle/deploy.sh --charts charts")]
    Archive(archive::ArchiveArguments),
    /// Push a bundle to a registry, for Flux, Argo CD or `bundle pull`
    ///
    /// It first verifies the bundle, and refuses edits that break it. Other edits are pushed too,
    /// with a note. If the bundle was rendered for Flux with --repo oci://…, its own charts are
    /// pushed first, into `charts/` below the repository. If the registry has the same chart, it is
    /// skipped; if it has another chart of this version, nothing is pushed. The same bundle gets
    /// the same digest on every machine.
    ///
    /// It prints each artifact with its digest, the bundle last, so that you can sign them. It uses
    /// the credentials of `docker login`, and its credential helpers; `podman login` works too.
    #[command(after_help = "Examples:
  gpu-rollout bundle push bundle oci://registry.example.com/gpu:v1
  gpu-rollout bundle push bundle oci://localhost:5000/gpu:v1 --plain-http
  gpu-rollout bundle push bundle oci://registry.example.com/gpu:v1 \\
    | xargs -n 1 cosign sign --key cosign.key")]
    Push(push::PushArguments),
    /// Pull a bundle from a registry into a directory
    ///
    /// Use it to deploy a bundle that was pushed with `bundle push`, or to read it. It checks all
    /// digests before it writes anything, and writes the bundle as a whole or not at all.
    #[command(after_help = "Examples:
  gpu-rollout bundle pull oci://registry.example.com/gpu:v1 bundle
  gpu-rollout bundle verify bundle")]
    Pull(pull::PullArguments),
}

impl BundleArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        match self.command {
            BundleCommand::Render(arguments) => arguments.run(printer),
            BundleCommand::Verify(arguments) => arguments.run(printer),
            BundleCommand::Diff(arguments) => arguments.run(printer),
            BundleCommand::Facts(arguments) => arguments.run(printer),
            BundleCommand::Parity(arguments) => arguments.run(printer),
            BundleCommand::Images(arguments) => arguments.run(printer),
            BundleCommand::Archive(arguments) => arguments.run(printer),
            BundleCommand::Push(arguments) => arguments.run(printer),
            BundleCommand::Pull(arguments) => arguments.run(printer),
        }
    }
}
