//! The images that worker nodes have. All others cannot be pulled.

use std::path::PathBuf;

use crate::harness::repository::repository;

/// Repository of the hook's own image in tests; its root file system is what `make image` made.
pub(crate) const HOOK_REPOSITORY: &str = "gpu-rollout.test/gpu-rollout";
/// Tags of it that exist: the content is the same, so the second one is what a bump of the image looks like.
const HOOK_TAGS: [&str; 2] = ["e2e", "e2e-next"];
/// The tag of the release before: where `GPU_ROLLOUT_PREVIOUS` says so, that image can be pulled too.
pub(crate) const PREVIOUS_TAG: &str = "e2e-previous";
/// A checkout of the release before, with its image built: `make e2e-full` makes one.
const PREVIOUS: &str = "GPU_ROLLOUT_PREVIOUS";
/// An image with this machine's shell, for tests of the agent itself.
pub(crate) const SHELL_IMAGE: &str = "gpu-rollout.test/shell:host";
/// Overrides where the root file system of the hook's image is.
const ROOT_FILE_SYSTEM: &str = "GPU_ROLLOUT_ROOTFS";

/// An image as a node has it.
pub(super) struct Image {
    /// Directories of this machine and where the container sees them.
    pub(super) content: Content,
    /// What runs if the pod names no command.
    pub(super) entrypoint: &'static [&'static str],
    /// The image's user.
    pub(super) user: i64,
}

/// Where an image's files come from.
pub(super) enum Content {
    /// A root file system of its own.
    Root(PathBuf),
    /// These directories of the machine.
    Host(&'static [&'static str]),
}

/// Finds an image by its reference; `None`: nobody can pull it.
pub(super) fn find(reference: &str) -> Option<Image> {
    if reference == SHELL_IMAGE {
        return Some(Image {
            content: Content::Host(&["/bin", "/lib", "/lib64", "/usr"]),
            entrypoint: &["/bin/sh"],
            user: 65532,
        });
    }
    let (repository, tag) = reference.rsplit_once(':')?;
    let root = match tag {
        PREVIOUS_TAG => previous()?.join("target/image/rootfs"),
        tag => HOOK_TAGS.contains(&tag).then(hook_root)?,
    };
    let image = Image { content: Content::Root(root), entrypoint: &["/gpu-rollout"], user: 65532 };
    (repository == HOOK_REPOSITORY).then_some(image)
}

/// The checkout of the release before, if there is one.
pub(crate) fn previous() -> Option<PathBuf> {
    std::env::var_os(PREVIOUS).map(PathBuf::from)
}

fn hook_root() -> PathBuf {
    let default = || repository("target/image/rootfs");
    std::env::var_os(ROOT_FILE_SYSTEM).map_or_else(default, PathBuf::from)
}
