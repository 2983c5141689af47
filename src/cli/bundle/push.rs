//! `gpu-rollout bundle push`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::registry_access::{RegistryOptions, TransferFailure, run};
use crate::cli::format::OutputFormat;
use crate::printer::Printer;
use bundle::package::{PackedBundle, PackedChart, pack};
use bundle::{BundleError, BundleFinding, verify};
use contract::count::with_noun;
use contract::exit::ExitCode;
use deployer::flux::{CHARTS, chart_tag};
use registry::RegistryClient;
use registry::artifact::Artifact;
use registry::reference::{
    ArtifactReference, ArtifactRepository, ArtifactVersion, RegistryAddress,
};

/// Arguments of `gpu-rollout bundle push`.
#[derive(Debug, clap::Args)]
pub struct PushArguments {
    /// Directory of the bundle
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Repository of the registry, and the tag of the bundle [default of TAG: --revision of `bundle
    /// render`, if the bundle was rendered with --repo oci://…]
    #[arg(value_name = "oci://HOST/REPOSITORY[:TAG]")]
    address: RegistryAddress,
    /// Output format: one artifact with its digest per line, or one JSON document
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    registry: RegistryOptions,
}

/// What is in the registry after a push.
#[derive(Serialize)]
struct PushSummary {
    charts: Vec<PushedArtifact>,
    bundle: PushedArtifact,
}

#[derive(Serialize)]
struct PushedArtifact {
    /// Repository and digest.
    reference: String,
    tag: String,
    /// `false`: the registry had it already.
    pushed: bool,
}

impl PushedArtifact {
    fn new(repository: &ArtifactRepository, tag: String, digest: &str, pushed: bool) -> Self {
        Self { reference: format!("{repository}@{digest}"), tag, pushed }
    }

    /// Prints the artifact for a pipe.
    fn print(&self, output: OutputFormat, printer: &mut Printer) {
        match output {
            OutputFormat::Text => printer.data(&format!("{}\n", self.reference)),
            OutputFormat::Json => {}
        }
    }
}

impl PushArguments {
    /// Runs the command. Prints each artifact with its digest to standard output, the bundle last.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        run(printer, async |printer| self.push(printer).await)
    }

    async fn push(self, printer: &mut Printer) -> Result<ExitCode, TransferFailure> {
        let Self { directory, address, output, registry } = self;
        check(&directory, printer)?;
        let bundle = pack(&directory).map_err(|error| not_a_bundle(&error))?;
        let (repository, tag) = target(address, &bundle)?;
        let reference = repository.with_tag(&tag)?;
        if let Some(note) = other_source_note(&bundle, &reference) {
            printer.note(&note);
        }
        let PackedBundle { info, revision, files, charts, .. } = bundle;
        let artifact = Artifact::bundle(&info.recipe.name, &revision, &files)
            .map_err(|error| unpackable(&error))?;
        let client = registry.client(&repository)?;
        // Users sign what is printed, so all charts are compared before the first line.
        let mut placed = Vec::new();
        for chart in charts {
            placed.push(PlacedChart::find(&client, &repository, chart).await?);
        }
        let mut pushed = Vec::new();
        for chart in placed {
            let chart = chart.push(&client, printer).await?;
            chart.print(output, printer);
            pushed.push(chart);
        }
        printer.note(&format!("pushing `{}` as {reference}", directory.display()));
        client.push(&reference, &artifact).await?;
        let bundle = PushedArtifact::new(&repository, tag, &artifact.digest, true);
        bundle.print(output, printer);
        Ok(match output {
            OutputFormat::Text => ExitCode::Success,
            OutputFormat::Json => printer.json(&PushSummary { charts: pushed, bundle }),
        })
    }
}

/// Verifies the bundle. Edits that break nothing are only reported: they are deployed too.
fn check(directory: &Path, printer: &mut Printer) -> Result<(), TransferFailure> {
    let findings = verify(directory).map_err(|error| not_a_bundle(&error))?;
    let (broken, edits): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(BundleFinding::is_broken);
    if !broken.is_empty() {
        let lines: Vec<String> = broken.iter().map(ToString::to_string).collect();
        return Err(TransferFailure::input(
            format!(
                "the parts of `{}` are not consistent:\n  {}",
                directory.display(),
                lines.join("\n  ")
            ),
            Some("change the recipe and render again with --force"),
        ));
    }
    if !edits.is_empty() {
        printer.note(&format!(
            "note: the bundle was edited after rendering ({}); the edits are pushed too; `gpu-rollout bundle verify` lists them",
            with_noun(edits.len(), "edit")
        ));
    }
    Ok(())
}

/// Returns the repository and the tag that the bundle gets.
fn target(
    address: RegistryAddress,
    bundle: &PackedBundle,
) -> Result<(ArtifactRepository, String), TransferFailure> {
    let rendered = bundle.registry.as_ref().filter(|source| !source.is_digest());
    let tag = match address.version {
        Some(ArtifactVersion::Tag(tag)) => tag,
        Some(ArtifactVersion::Digest(_)) => {
            return Err(TransferFailure::usage(
                "the digest of a bundle follows from its content, and cannot be chosen",
                "replace it with a tag: oci://HOST/REPOSITORY:TAG",
            ));
        }
        // A digest is not a tag: the bundle is then deployed by its digest.
        None => rendered.map(|source| source.revision.clone()).ok_or_else(|| {
            TransferFailure::usage(
                "the address has no tag, and the bundle does not name one",
                "add a tag: oci://HOST/REPOSITORY:TAG",
            )
        })?,
    };
    Ok((address.repository, tag))
}

/// Returns a note if the deployer reads the bundle from elsewhere.
fn other_source_note(bundle: &PackedBundle, reference: &ArtifactReference) -> Option<String> {
    let source = bundle.registry.as_ref()?;
    let rendered = format!("{}:{}", source.url, source.revision);
    (rendered != format!("oci://{reference}")).then(|| {
        format!(
            "note: {} reads this bundle from {}, revision {}",
            bundle.info.deployer, source.url, source.revision
        )
    })
}

/// A chart with its place in the registry.
struct PlacedChart {
    /// Name and version.
    title: String,
    reference: ArtifactReference,
    tag: String,
    artifact: Artifact,
    /// Whether the registry has the same artifact.
    is_pushed: bool,
}

impl PlacedChart {
    /// Packs a chart, and compares it with that in the registry.
    ///
    /// # Errors
    /// The registry has another chart of this name and version. To report its digest would let
    /// everyone who can push to the registry get a signature for any chart.
    async fn find(
        client: &RegistryClient,
        repository: &ArtifactRepository,
        chart: PackedChart,
    ) -> Result<Self, TransferFailure> {
        let PackedChart { name, version, metadata, files } = chart;
        let tag = chart_tag(&version);
        let reference = repository.below(&format!("{CHARTS}/{name}"))?.with_tag(&tag)?;
        let artifact = Artifact::chart(&name, &version, metadata, &files)
            .map_err(|error| unpackable(&error))?;
        let title = format!("{name} {version}");
        let is_pushed = match client.digest(&reference).await? {
            None => false,
            Some(digest) if digest == artifact.digest => true,
            Some(digest) => return Err(other_chart(&title, &reference, &digest, &artifact.digest)),
        };
        Ok(Self { title, reference, tag, artifact, is_pushed })
    }

    /// Pushes the chart, unless the registry has it.
    async fn push(
        self,
        client: &RegistryClient,
        printer: &mut Printer,
    ) -> Result<PushedArtifact, TransferFailure> {
        let Self { title, reference, tag, artifact, is_pushed } = self;
        if is_pushed {
            printer.note(&format!("skipping chart {title}: already pushed"));
        } else {
            printer.note(&format!("pushing chart {title}"));
            client.push(&reference, &artifact).await?;
        }
        Ok(PushedArtifact::new(&reference.repository, tag, &artifact.digest, !is_pushed))
    }
}

/// The failure for a chart of which the registry has another one. Its version contains a digest of
/// its content as rendered, so one of them is not what was rendered.
fn other_chart(
    title: &str,
    reference: &ArtifactReference,
    found: &str,
    expected: &str,
) -> TransferFailure {
    TransferFailure::input(
        format!(
            "a chart of this version with other content is in the registry: `{reference}` has the digest {found}, and chart {title} of the bundle has {expected}"
        ),
        Some(
            "if you edited the chart after rendering, put the change into the recipe and render again, or change `version` in its `Chart.yaml` and the tag in `sources/`; otherwise find out who pushed the chart in the registry before you trust it or delete its tag",
        ),
    )
}

fn not_a_bundle(error: &BundleError) -> TransferFailure {
    TransferFailure::input(error.to_string(), Some(error.hint()))
}

/// A path that cannot be in an archive, such as one in an edited `bundle-info.yaml`.
fn unpackable(error: &std::io::Error) -> TransferFailure {
    TransferFailure::input(format!("cannot pack the bundle: {error}"), None)
}
