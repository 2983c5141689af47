//! Bundles in a registry: `bundle push` with logins and digests, and `bundle pull`.

use std::fs;
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use contract::exit::ExitCode;
use jiff::Timestamp;
use serde_json::json;
use tokio::process::Command;

use super::{registry_and_bundle, render, without_cluster};
use crate::harness::registry::{LOGIN, Registry, WRONG_LOGIN};
use crate::harness::rendered::said;
use crate::harness::repository::gpu_rollout;
use crate::harness::scenario::scenario;
use crate::scenarios::deployers::fired;

/// Renders a bundle for Flux, which also has charts to push.
async fn render_for(registry: &Registry, bundle: &Path) -> Result<()> {
    let url = registry.url("fleet");
    render("flux", bundle, &["--repo", &url, "--revision", "v1"]).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn push_twice_gives_one_digest() -> Result<()> {
    without_cluster("released-push", async |directory| {
        let registry = Registry::start(directory).await?;
        let push = async |name: &str, repository: &str| -> Result<Vec<String>> {
            let bundle = directory.join(name);
            render_for(&registry, &bundle).await?;
            registry.push_bundle(&bundle, repository, "v1").await
        };
        let first = push("first", "fleet").await?;
        let second = push("second", "fleet").await?;
        let blobs = registry.blobs()?;
        let copy = push("third", "copy").await?;

        ensure!(first == second, "{first:#?}\n{second:#?}");
        ensure!(first.len() > 1, "no charts: {first:#?}");
        let digests = |references: &[String]| -> Vec<String> {
            let digests = references.iter().filter_map(|reference| reference.split_once('@'));
            digests.map(|(_, digest)| digest.to_owned()).collect()
        };
        ensure!(digests(&first) == digests(&copy), "{first:#?}\n{copy:#?}");
        ensure!(digests(&first).len() == first.len(), "no digest: {first:#?}");
        ensure!(registry.blobs()? == blobs, "the same content has other blobs");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn push_logs_in_from_docker_config() -> Result<()> {
    without_cluster("released-login", async |directory| {
        let registry = Registry::start_with_login(directory).await?;
        let bundle = directory.join("bundle");
        render_for(&registry, &bundle).await?;
        let host = registry.address();
        let push = async |login: Option<&str>| -> Result<Output> {
            let place = directory.join(login.unwrap_or("none"));
            fs::create_dir(&place)?;
            if let Some(login) = login {
                let config = json!({"auths": {host: {"auth": login}}});
                fs::write(place.join("config.json"), config.to_string())?;
            }
            let mut command = Command::new(gpu_rollout()?);
            command.args(["bundle", "push"]).arg(&bundle).arg(registry.url("fleet:v1"));
            command
                .arg("--plain-http")
                .env("DOCKER_CONFIG", place)
                .env_remove("REGISTRY_AUTH_FILE");
            Ok(command.kill_on_drop(true).output().await?)
        };

        for login in [None, Some(WRONG_LOGIN)] {
            let refused = push(login).await?;
            let message = String::from_utf8_lossy(&refused.stderr);
            let code = Some(i32::from(ExitCode::Rights.number()));
            ensure!(refused.status.code() == code, "{}: {message}", refused.status);
            ensure!(message.contains(&format!("docker login {host}")), "no hint: {message}");
            ensure!(registry.blobs().is_err(), "something was pushed");
        }
        let pushed = push(Some(LOGIN)).await?;
        ensure!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn pull_deploys_what_was_pushed() -> Result<()> {
    scenario("released-pull", async |stack| {
        let (registry, bundle) = registry_and_bundle(stack).await?;
        let (stack, begin) = (&*stack, Timestamp::now());
        let directory = stack.helm.directory();
        let pushed = registry.push_bundle(&bundle, "bundles/e2e", "v1").await?;
        let pushed = pushed.last().context("the bundle")?;

        let pulled = directory.join("pulled");
        let mut pull = Command::new(gpu_rollout()?);
        pull.args(["bundle", "pull", &format!("oci://{pushed}")]).arg(&pulled).arg("--plain-http");
        said(&mut pull).await?;
        said(Command::new("diff").arg("--recursive").args([&bundle, &pulled])).await?;

        let said = stack.deploy_bundle(&pulled).await?;
        ensure!(said.success, "{said:?}");
        ensure!(fired(stack, begin)? == [1, 1, 1], "{:?}", fired(stack, begin)?);
        Ok(())
    })
    .await
}
