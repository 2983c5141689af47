//! Where Argo CD reads the bundle from.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::{Follow, NAMESPACE};
use crate::harness::apply::Applier;
use crate::harness::git::Repository;
use crate::harness::registry::Registry;
use crate::harness::stack::Stack;

/// The bundle's folder in the repository.
pub(super) const FOLDER: &str = "bundle";
/// The bundle's repository in the registry.
const ARTIFACT: &str = "fleet";

/// A source of Argo CD.
pub(super) enum Place {
    /// A Git repository.
    Git(Repository),
    /// A registry.
    Registry {
        registry: Box<Registry>,
        /// The directory in which the user renders the bundle.
        checkout: PathBuf,
    },
}

impl Place {
    /// Creates an empty Git repository.
    pub(super) async fn git(directory: &Path) -> Result<Self> {
        Ok(Self::Git(Repository::create(directory, "fleet").await?))
    }

    /// Uses a registry without HTTPS, which Argo CD gets to know from a Secret.
    pub(super) async fn registry(stack: &Stack, registry: Registry) -> Result<Self> {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "bundle",
                "labels": {"argocd.argoproj.io/secret-type": "repository"},
            },
            "stringData": {
                "type": "oci",
                "url": registry.url(ARTIFACT),
                "insecureOCIForceHttp": "true",
            },
        });
        Applier::new(&stack.client).apply(&secret, NAMESPACE).await?;
        let checkout = stack.helm.directory().join("rendered");
        Ok(Self::Registry { registry: Box::new(registry), checkout })
    }

    /// Returns the directory of the bundle that the user edits.
    pub(super) fn bundle(&self) -> PathBuf {
        match self {
            Self::Git(repository) => repository.checkout().join(FOLDER),
            Self::Registry { checkout, .. } => checkout.clone(),
        }
    }

    /// Returns the URL of the repository.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Git(repository) => format!("file://{}", repository.path().display()),
            Self::Registry { registry, .. } => registry.url(ARTIFACT),
        }
    }

    /// Commits or pushes the bundle as a revision. Returns Argo CD's notation of it: the commit, or
    /// the digest.
    pub(super) async fn hand_over(
        &self,
        follow: Follow,
        revision: &str,
        message: &str,
    ) -> Result<String> {
        match self {
            Self::Git(repository) => {
                let commit = repository.commit(message).await?;
                if follow == Follow::Tags {
                    repository.tag(revision).await?;
                }
                Ok(commit)
            }
            Self::Registry { registry, checkout } => {
                let pushed = registry.push_bundle(checkout, ARTIFACT, revision).await?;
                let bundle = pushed.last().and_then(|reference| reference.split_once('@'));
                let (_, digest) = bundle.context("a reference with a digest")?;
                Ok(digest.to_owned())
            }
        }
    }
}
