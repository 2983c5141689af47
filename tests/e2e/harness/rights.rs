//! Checks rights with the audit log: no request was denied or exceeded the rights, and over all
//! scenarios each granted right was used.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject,
};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};

use super::audit::Request;
use super::hook_release::HookRelease;
use super::stack::Stack;

/// The granted and the used rights, as `scope group/resource verb`.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Rights {
    /// All rules of the roles that are bound to the hook's ServiceAccount.
    pub(crate) granted: BTreeSet<String>,
    /// The rights that a request needed.
    pub(crate) used: BTreeSet<String>,
}

/// One verb of one rule.
struct Grant {
    name: String,
    /// Empty: a ClusterRole.
    namespace: String,
    rule: PolicyRule,
    verb: String,
    resource: String,
    group: String,
}

impl Grant {
    fn covers(&self, request: &Request) -> bool {
        let names = self.rule.resource_names.as_deref().unwrap_or_default();
        self.verb == request.verb
            && self.resource == request.resource
            && self.group == request.group
            && (self.namespace.is_empty() || self.namespace == request.namespace)
            && (names.is_empty() || names.contains(&request.name))
    }
}

/// Checks the requests of a hook against its rights, and stores the used rights for [`unused`].
pub(crate) async fn check(stack: &Stack, hook: &HookRelease<'_>, scenario: &str) -> Result<()> {
    let grants = grants(stack, hook).await?;
    let mut rights = Rights {
        granted: grants.iter().map(|grant| grant.name.clone()).collect(),
        used: BTreeSet::new(),
    };
    for request in hook.requests(Timestamp::MIN)? {
        ensure!(request.code != 403, "denied: {request:?}");
        if request.group == "authorization.k8s.io" {
            continue;
        }
        let covering: Vec<String> = grants
            .iter()
            .filter(|grant| grant.covers(&request))
            .map(|grant| grant.name.clone())
            .collect();
        ensure!(!covering.is_empty(), "the chart does not grant the rights for {request:?}");
        rights.used.extend(covering);
    }
    std::fs::create_dir_all(directory())?;
    std::fs::write(
        directory().join(format!("{scenario}.json")),
        serde_json::to_vec_pretty(&rights)?,
    )?;
    Ok(())
}

/// Returns the rights that no scenario used.
pub(crate) fn unused() -> Result<Vec<String>> {
    let mut all = Rights::default();
    let directory = directory();
    for file in std::fs::read_dir(&directory)
        .with_context(|| format!("{}: run the other scenarios first", directory.display()))?
    {
        let rights: Rights = serde_json::from_slice(&std::fs::read(file?.path())?)?;
        all.granted.extend(rights.granted);
        all.used.extend(rights.used);
    }
    ensure!(
        !all.granted.is_empty(),
        "no scenario has stored its rights in {}",
        directory.display()
    );
    Ok(all.granted.difference(&all.used).cloned().collect())
}

/// Returns the rights of a scope, such as `acceptance`, that a hook had in a scenario and did not
/// use. [`check`] stores them.
pub(crate) fn unused_in(scenario: &str, scope: &str) -> Result<Vec<String>> {
    let file = directory().join(format!("{scenario}.json"));
    let text = std::fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let Rights { granted, used } = serde_json::from_slice(&text)?;
    let of_scope =
        |right: &&String| right.split_once(' ').is_some_and(|(granted_in, _)| granted_in == scope);
    ensure!(granted.iter().any(|right| of_scope(&right)), "no right in the scope {scope}");
    Ok(granted.difference(&used).filter(of_scope).cloned().collect())
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("rights")
}

async fn grants(stack: &Stack, hook: &HookRelease<'_>) -> Result<Vec<Grant>> {
    let client = || stack.client.clone();
    let everything = ListParams::default();
    let bound = |subjects: &Option<Vec<Subject>>| {
        let account = |subject: &Subject| {
            subject.name == hook.name() && subject.namespace.as_deref() == Some(hook.namespace())
        };
        subjects.iter().flatten().any(account)
    };
    let mut grants = Vec::new();
    for binding in Api::<RoleBinding>::all(client())
        .list(&everything)
        .await?
        .iter()
        .filter(|binding| bound(&binding.subjects))
    {
        let namespace = binding.namespace().unwrap_or_default();
        let role =
            Api::<Role>::namespaced(client(), &namespace).get(&binding.role_ref.name).await?;
        let scope = role.name_any().rsplit(':').next().unwrap_or_default().to_owned();
        add(&mut grants, &scope, &namespace, role.rules);
    }
    for binding in Api::<ClusterRoleBinding>::all(client())
        .list(&everything)
        .await?
        .iter()
        .filter(|binding| bound(&binding.subjects))
    {
        let role = Api::<ClusterRole>::all(client()).get(&binding.role_ref.name).await?;
        add(&mut grants, "cluster", "", role.rules);
    }
    Ok(grants)
}

fn add(grants: &mut Vec<Grant>, scope: &str, namespace: &str, rules: Option<Vec<PolicyRule>>) {
    for rule in rules.unwrap_or_default() {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    grants.push(Grant {
                        name: format!("{scope} {group}/{resource} {verb}"),
                        namespace: namespace.to_owned(),
                        verb: verb.clone(),
                        resource: resource.clone(),
                        group: group.clone(),
                        rule: rule.clone(),
                    });
                }
            }
        }
    }
}
