//! The images of worker nodes: those of this machine, which need no pull, and those of registries
//! on loopback. Other images cannot be pulled.

mod pulled;

use std::path::PathBuf;

pub(super) use pulled::PulledImages;

use crate::harness::repository::repository;

/// The repository of the hook's image in tests. Its root file system is the output of `make image`.
pub(crate) const HOOK_REPOSITORY: &str = "gpu-rollout.test/gpu-rollout";
/// The existing tags. Their content is the same, so the second tag simulates an upgrade of the
/// image.
const HOOK_TAGS: [&str; 2] = ["e2e", "e2e-next"];
/// The tag of the previous release. With `GPU_ROLLOUT_PREVIOUS`, this image can be pulled too.
pub(crate) const PREVIOUS_TAG: &str = "e2e-previous";
/// The variable with a checkout of the previous release and its built image. `make e2e-full`
/// creates one.
const PREVIOUS: &str = "GPU_ROLLOUT_PREVIOUS";
/// An image with this machine's shell, for tests of the agent itself.
pub(crate) const SHELL_IMAGE: &str = "gpu-rollout.test/shell:host";
/// Overrides the path of the root file system of the hook's image.
const ROOT_FILE_SYSTEM: &str = "GPU_ROLLOUT_ROOTFS";

/// An image on a node.
#[derive(Clone)]
pub(super) struct Image {
    /// Directories of this machine, with their mount points in the container.
    pub(super) content: Content,
    /// The command if the pod names none.
    pub(super) entrypoint: Vec<String>,
    /// The arguments if the pod names neither a command nor arguments.
    pub(super) arguments: Vec<String>,
    /// The environment variables that every container gets.
    pub(super) environment: Vec<(String, String)>,
    /// The image's user.
    pub(super) user: i64,
}

/// The source of an image's files.
#[derive(Clone)]
pub(super) enum Content {
    /// A root file system of its own.
    Root(PathBuf),
    /// These directories of the machine.
    Host(&'static [&'static str]),
}

impl Image {
    fn local(content: Content, entrypoint: &str) -> Self {
        Self {
            content,
            entrypoint: vec![entrypoint.to_owned()],
            arguments: Vec::new(),
            environment: Vec::new(),
            user: 65532,
        }
    }
}

/// Finds an image of this machine by its reference.
fn find(reference: &str) -> Option<Image> {
    if reference == SHELL_IMAGE {
        return Some(Image::local(Content::Host(&["/bin", "/lib", "/lib64", "/usr"]), "/bin/sh"));
    }
    let (repository, tag) = reference.rsplit_once(':')?;
    if repository != HOOK_REPOSITORY {
        return None;
    }
    let root = match tag {
        PREVIOUS_TAG => previous()?.join("target/image/rootfs"),
        tag => HOOK_TAGS.contains(&tag).then(hook_root)?,
    };
    Some(Image::local(Content::Root(root), "/gpu-rollout"))
}

/// Returns the checkout of the previous release, if there is one.
pub(crate) fn previous() -> Option<PathBuf> {
    std::env::var_os(PREVIOUS).map(PathBuf::from)
}

/// Returns the OCI layout of the hook's image. `make image` writes it next to the root file system.
pub(crate) fn hook_layout() -> PathBuf {
    hook_root().with_file_name("oci")
}

fn hook_root() -> PathBuf {
    let default = || repository("target/image/rootfs");
    std::env::var_os(ROOT_FILE_SYSTEM).map_or_else(default, PathBuf::from)
}
