//! A bundle with a component that is a kustomization in a Git repository of its own: installed, and
//! changed to another tag. Objects that were removed there are deleted, and no hook fires for it.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use crate::harness::ask::Ask;
use crate::harness::deployers::{Kind, Outcome};
use crate::harness::git::Repository;
use crate::harness::git_http::GitServer;
use crate::harness::scenario::scenario_within;
use crate::harness::stand_in::Script;
use crate::harness::wait::until;

use super::{fired, for_each_deployer};

for_each_deployer!(kustomization, flux Flux, argocd ArgoCd, argocd_helm ArgoCdHelm);

/// Two deployments, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(20);
const LIMIT: Duration = Duration::from_mins(3);
const NODES: usize = 2;
/// The namespace of the component, and the name of its object.
const NAMESPACE: &str = "jobs";
const NAME: &str = "queue";
/// An object that only the first tag has.
const REMOVED: &str = "removed";

async fn kustomization(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("kustomization-{}", kind.word()), async |stack| {
        stack.play(Script::seeded(23)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let repository = Repository::create(stack.helm.directory(), NAME).await?;
        let server = GitServer::start(&repository).await?;
        publish(&repository, "v1", &[NAME, REMOVED]).await?;
        publish(&repository, "v2", &[NAME]).await?;
        let url = server.url(&repository)?;
        let ask = |tag: &str| Ask {
            components: vec![json!({
                "name": NAME,
                "namespace": NAMESPACE,
                "kustomize": {"repository": url, "revision": tag, "path": "deploy/base"},
            })],
            ..Ask::old(NODES)
        };
        let maps = Api::<ConfigMap>::namespaced(stack.client.clone(), NAMESPACE);
        let has_tag = async |tag: &str| {
            until(&format!("the object of {tag}"), LIMIT, async || {
                let map = maps.get_opt(NAME).await?;
                let data = map.and_then(|map| map.data).unwrap_or_default();
                Ok((data.get("tag").map(String::as_str) == Some(tag)).then_some(()))
            })
            .await
        };

        let deployer = kind.start(stack).await?;
        deployer.deploy(stack, &ask("v1")).await?;
        deployer.wait(stack, Outcome::Succeeded).await?;
        has_tag("v1").await?;
        ensure!(maps.get_opt(REMOVED).await?.is_some(), "the kustomization has two objects");

        let begin = Timestamp::now();
        deployer.deploy(stack, &ask("v2")).await?;
        deployer.wait(stack, Outcome::Succeeded).await?;
        has_tag("v2").await?;
        until("the removed object to be deleted", LIMIT, async || {
            Ok(maps.get_opt(REMOVED).await?.is_none().then_some(()))
        })
        .await?;
        ensure!(fired(stack, begin)? == [0, 0, 0], "{:?}", fired(stack, begin)?);
        Ok(())
    })
    .await
}

/// Commits a kustomization of ConfigMaps without namespaces, and tags it.
async fn publish(repository: &Repository, tag: &str, names: &[&str]) -> Result<()> {
    let base = repository.checkout().join("deploy/base");
    fs::create_dir_all(&base)?;
    let files: Vec<String> = names.iter().map(|name| format!("{name}.yaml")).collect();
    for (name, file) in names.iter().zip(&files) {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"tag": tag},
        });
        fs::write(base.join(file), map.to_string())?;
    }
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": files,
    });
    fs::write(base.join("kustomization.yaml"), kustomization.to_string())?;
    repository.commit(tag).await?;
    repository.tag(tag).await
}
