//! A Git repository to which a bundle is committed, as a user does.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

/// The branch that deployers follow.
pub(crate) const BRANCH: &str = "main";

/// A bare repository, and a checkout of it.
pub(crate) struct Repository {
    bare: PathBuf,
    checkout: PathBuf,
}

impl Repository {
    /// Creates `<directory>/git/<name>.git` with one empty commit.
    pub(crate) async fn create(directory: &Path, name: &str) -> Result<Self> {
        let bare = directory.join("git").join(format!("{name}.git"));
        let checkout = directory.join("git").join(name);
        std::fs::create_dir_all(&checkout)?;
        let repository = Self { bare, checkout };
        let path = repository.bare.display().to_string();
        repository.git(&["init", "--quiet", "--bare", "--initial-branch", BRANCH, &path]).await?;
        repository.git(&["init", "--quiet", "--initial-branch", BRANCH]).await?;
        repository.git(&["remote", "add", "origin", &path]).await?;
        repository.commit("Create the repository").await?;
        Ok(repository)
    }

    /// Returns the path of the bare repository.
    pub(crate) fn path(&self) -> &Path {
        &self.bare
    }

    /// Returns the path of the checkout that a user edits.
    pub(crate) fn checkout(&self) -> &Path {
        &self.checkout
    }

    /// Commits all changes of the checkout, if there are any, and pushes them. Returns the commit.
    pub(crate) async fn commit(&self, message: &str) -> Result<String> {
        self.git(&["add", "--all"]).await?;
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]).await?;
        self.git(&["push", "--quiet", "origin", BRANCH]).await?;
        self.git(&["rev-parse", "HEAD"]).await
    }

    /// Tags the newest commit and pushes the tag.
    pub(crate) async fn tag(&self, name: &str) -> Result<()> {
        self.git(&["tag", name]).await?;
        self.git(&["push", "--quiet", "origin", name]).await?;
        Ok(())
    }

    async fn git(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=e2e",
                "-c",
                "user.email=e2e@example.com",
                "-c",
                "commit.gpgSign=false",
            ])
            .args(arguments)
            .current_dir(&self.checkout)
            // Ignore the git settings of the user who runs the tests.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .stdin(Stdio::null())
            .output()
            .await
            .context("running git")?;
        ensure!(
            output.status.success(),
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
