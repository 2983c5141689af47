//! Where Flux reads the bundle from.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::harness::git::{BRANCH, Repository};
use crate::harness::git_http::GitServer;
use crate::harness::registry::Registry;

/// The bundle's folder in the repository.
const FOLDER: &str = "gpu";
/// The bundle's repository in the registry, and its tag.
const ARTIFACT: &str = "fleet";
const TAG: &str = "stable";
/// The Secret with the public key of the signer.
pub(super) const SIGNER: &str = "signer";

/// A source of Flux.
pub(super) enum Place {
    /// A Git repository, and the server of it.
    Git { repository: Repository, server: GitServer },
    /// A registry, from which Flux accepts only what a signer has signed.
    Registry {
        registry: Box<Registry>,
        /// The directory in which the user renders the bundle.
        checkout: PathBuf,
        /// What was pushed last, by digest.
        pushed: RefCell<Vec<String>>,
    },
}

impl Place {
    /// Creates an empty Git repository.
    pub(super) async fn git(directory: &Path) -> Result<Self> {
        let repository = Repository::create(directory, "fleet").await?;
        let server = GitServer::start(&repository).await?;
        Ok(Self::Git { repository, server })
    }

    /// Uses a registry. The files of the user are in `directory`.
    pub(super) fn registry(directory: &Path, registry: Registry) -> Self {
        let checkout = directory.join("rendered");
        Self::Registry { registry: Box::new(registry), checkout, pushed: RefCell::default() }
    }

    /// Returns the directory of the bundle that the user edits.
    pub(super) fn bundle(&self) -> PathBuf {
        match self {
            Self::Git { repository, .. } => repository.checkout().join(FOLDER),
            Self::Registry { checkout, .. } => checkout.clone(),
        }
    }

    /// Returns the options of `bundle render` for this source.
    pub(super) fn options(&self) -> Result<Vec<String>> {
        let (url, revision) = match self {
            Self::Git { repository, server } => (server.url(repository)?, BRANCH),
            Self::Registry { registry, .. } => (registry.url(ARTIFACT), TAG),
        };
        let mut options = vec!["--force", "--repo", &url, "--revision", revision, "--path", FOLDER];
        if let Self::Registry { .. } = self {
            options.extend(["--verify-secret", SIGNER]);
        }
        Ok(options.into_iter().map(str::to_owned).collect())
    }

    /// Commits or pushes the bundle. Returns Flux's notation of its revision.
    pub(super) async fn hand_over(&self, message: &str) -> Result<String> {
        match self {
            Self::Git { repository, .. } => {
                Ok(format!("{BRANCH}@sha1:{}", repository.commit(message).await?))
            }
            Self::Registry { registry, checkout, pushed } => {
                let references = registry.push_bundle(checkout, ARTIFACT, TAG).await?;
                let bundle = references.last().and_then(|reference| reference.split_once('@'));
                let (_, digest) = bundle.context("a reference with a digest")?;
                let revision = format!("{TAG}@{digest}");
                pushed.replace(references);
                Ok(revision)
            }
        }
    }

    /// Returns what was pushed last to a registry, by digest: the charts, then the bundle.
    pub(super) fn pushed(&self) -> Vec<String> {
        match self {
            Self::Git { .. } => Vec::new(),
            Self::Registry { pushed, .. } => pushed.borrow().clone(),
        }
    }

    /// Returns the kind of the object that fetches the bundle.
    pub(super) fn kind(&self) -> ApiResource {
        match self {
            Self::Git { .. } => super::repositories(),
            Self::Registry { .. } => super::artifacts(),
        }
    }

    /// Changes the objects that a user applies once, for a registry without HTTPS: those of the
    /// charts are patched as the README.md of the bundle describes.
    pub(super) fn adapt(&self, object: &mut Value) {
        let Self::Registry { .. } = self else { return };
        match object["kind"].as_str() {
            Some("OCIRepository") => object["spec"]["insecure"] = true.into(),
            Some("Kustomization") => {
                let patch = json!([{"op": "add", "path": "/spec/insecure", "value": true}]);
                object["spec"]["patches"] =
                    json!([{"target": {"kind": "OCIRepository"}, "patch": patch.to_string()}]);
            }
            _ => {}
        }
    }
}
