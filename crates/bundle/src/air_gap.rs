//! The air-gap archive of a bundle: the bundle, the charts of its components, the list of its
//! images, and the commands that use them. The charts come from a folder, so packing needs no
//! network.

use std::collections::BTreeSet;
use std::path::Path;

use super::checksums::{self, CHECKSUMS, SIGNATURE};
use super::directory::BundleDirectory;
use super::images::{HOOK_IMAGE, NodeKinds, images, list};
use super::info::BundleInfo;
use super::verify::verify;
use archive::{ArchiveFile, ArchiveFiles, below};
use contract::digest::sha256;
use contract::grammar::grammar;
use contract::image_reference::has_registry;
use contract::visible;
use release::ReleasePlan;
use release::images::ImageList;
use release::model::IMAGE_WITHOUT_REGISTRY;

mod charts;
mod error;
mod origins;
mod readme;
mod render_options;

pub use error::AirGapError;

/// The folder of the bundle in the archive.
const BUNDLE: &str = "bundle";
/// The folder of the charts.
const CHARTS: &str = "charts";
/// The images that the nodes pull, one per line.
const IMAGES: &str = "images.txt";
/// The images to copy: source, and name in the user's registry.
const COPIES: &str = "copy-images.txt";
/// The page with the commands.
const README: &str = "README.md";

/// The content of an air-gap archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AirGapArchive {
    /// The only folder at the top of the archive. Without it, unpacking would replace files of the
    /// user, such as a `README.md`.
    pub folder: String,
    /// The files by their paths in that folder.
    pub files: ArchiveFiles,
    /// The number of charts.
    pub charts: usize,
    /// The number of listed images.
    pub images: usize,
    /// What the archive lacks, one sentence each.
    pub notes: Vec<String>,
}

/// Collects the content of the archive of the bundle in `directory`, with the charts in the folder
/// `charts`, and with the images for these kinds of nodes.
///
/// # Errors
/// See [`AirGapError`].
pub fn air_gap(
    directory: &Path,
    charts: &Path,
    nodes: &NodeKinds,
) -> Result<AirGapArchive, AirGapError> {
    let edits: Vec<String> = verify(directory)?.iter().map(ToString::to_string).collect();
    if !edits.is_empty() {
        return Err(AirGapError::Edited { directory: directory.to_owned(), edits });
    }
    let bundle = BundleDirectory::open(directory)?;
    let info = bundle.info()?;
    let plan = origins::plan(directory, &info)?;
    let images = ImageTexts::new(directory, &info, &plan, nodes)?;
    let needed = charts::needed(&info, &plan)?;
    let packages = charts::find(charts, &needed)?;
    let key_option = bundle.kind(SIGNATURE).map(|_| "--key cosign.pub");
    let readme = readme::readme(&info, key_option, &needed, &images.notes)?;
    let mut files = below(BUNDLE, bundle.archive_files()?);
    for (chart, package) in needed.iter().zip(packages) {
        files.insert(format!("{CHARTS}/{}", chart.file()), ArchiveFile::new(package));
    }
    let count = images.list.lines().count();
    files.insert(IMAGES.to_owned(), ArchiveFile::new(images.list));
    files.insert(COPIES.to_owned(), ArchiveFile::new(images.copies));
    files.insert(README.to_owned(), ArchiveFile::new(readme));
    let list = checksum_list(&files);
    files.insert(CHECKSUMS.to_owned(), ArchiveFile::new(list));
    Ok(AirGapArchive {
        folder: folder(&info.recipe.name),
        files,
        charts: needed.len(),
        images: count,
        notes: images.notes,
    })
}

/// Returns the folder for the archive of a bundle. The bundle may be from an untrusted source, so
/// its recipe may have a name that is a path.
fn folder(recipe: &str) -> String {
    let is_name = grammar("recipeName").is_some_and(|name| (name.fits)(recipe));
    format!("{}-air-gap", if is_name { recipe } else { BUNDLE })
}

/// Returns the list of all files for `sha256sum`.
fn checksum_list(files: &ArchiveFiles) -> String {
    let digests: Vec<(&str, String)> =
        files.iter().map(|(path, file)| (path.as_str(), sha256(&file.content))).collect();
    checksums::lines(digests.iter().map(|(path, digest)| (*path, digest.as_str())))
}

/// The lists of images.
struct ImageTexts {
    /// The images that the nodes pull, one per line.
    list: String,
    /// The images to copy, one per line: source, and name in the user's registry. If the bundle
    /// does not name that registry, the name is a path below it.
    copies: String,
    /// Why images are missing, one sentence each.
    notes: Vec<String>,
}

impl ImageTexts {
    fn new(
        directory: &Path,
        info: &BundleInfo,
        plan: &ReleasePlan,
        kinds: &NodeKinds,
    ) -> Result<Self, AirGapError> {
        let ImageList { images, unknown } = images(directory)?;
        let is_mirrored = !info.registry_mirrors.is_empty();
        let sources = if is_mirrored { origins::sources(&images, plan)? } else { images.clone() };
        let (mut pulled, mut copies) = (Vec::new(), BTreeSet::new());
        let unpullable = format!("{IMAGE_WITHOUT_REGISTRY}; then pack it again");
        let mut notes: Vec<String> =
            unknown.into_iter().map(|reason| format!("unknown images: {reason}")).collect();
        for (image, source) in images.into_iter().zip(sources).filter(|(one, _)| one.enabled) {
            let is_local = source.place == HOOK_IMAGE && !has_registry(&source.repository);
            if is_local && !notes.contains(&unpullable) {
                notes.push(unpullable.clone());
            }
            for (image, source) in kinds.images(image).into_iter().zip(kinds.images(source)) {
                let (to, from) = (image.reference(), source.reference());
                let to = if is_mirrored { to.as_str() } else { below_registry(&to) };
                // An image that no mirror applies to is pulled from where it is.
                let is_there = is_mirrored && to == from;
                if !is_local && !is_there {
                    copies.insert(format!("{} {}\n", visible::line(&from), visible::line(to)));
                }
                pulled.push(image);
            }
        }
        Ok(Self { list: list(&pulled)?, copies: copies.into_iter().collect(), notes })
    }
}

/// Returns the name of an image without its registry, as `--registry-mirror` puts it below another
/// one.
fn below_registry(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((registry, path)) if has_registry(registry) => path,
        Some(_) | None => reference,
    }
}

#[cfg(test)]
mod tests;
