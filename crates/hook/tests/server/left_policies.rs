//! `doctor` finds admission policies that no hook release wants any more.

use contract::settings::Settings;
use ops::doctor::left_policies;
use serde_json::json;

use crate::fake::rights::Grant;
use crate::settings::{OPERATOR, RELEASE, settings};
use crate::world::World;

fn name(release: &str, about: &str) -> String {
    format!("gpu-rollout.{OPERATOR}.{release}.{about}")
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn policies_of_absent_release_are_named() {
    const RESOURCE: &str = "validatingadmissionpolicies";
    let world = World::at_rest(1);
    let labels = json!({"metadata": {"labels": {"app.kubernetes.io/name": "gpu-rollout"}}});
    for release in [RELEASE, "gone"] {
        for about in ["nodes", "objects"] {
            world.put(RESOURCE, "", &name(release, about), labels.clone());
        }
    }
    world.put(RESOURCE, "", "of-others", json!({"metadata": {"labels": {}}}));
    let client = world.server.client("person");
    let grant = Grant::everywhere("list", "admissionregistration.k8s.io", RESOURCE);
    world.server.change(|state| state.grants.push(grant));
    let hook = |admission_policy| Settings { admission_policy, ..settings() };
    for (case, hook, namespace, left) in [
        ("its release has policies", hook(true), None, vec!["gone"]),
        ("its release has disabled them", hook(false), None, vec![RELEASE, "gone"]),
        ("another namespace", hook(false), Some("default"), vec![]),
    ] {
        let found = left_policies(&client, std::iter::once(&hook), namespace).await.unwrap();
        let mut names: Vec<String> = left
            .iter()
            .flat_map(|release| ["nodes", "objects"].map(|about| name(release, about)))
            .collect();
        names.sort();
        let command = "kubectl delete --ignore-not-found validatingadmissionpolicies,validatingadmissionpolicybindings";
        let run = found.map(|finding| finding.remedy.run).unwrap_or_default();
        let expected = (!names.is_empty()).then(|| format!("{command} {}", names.join(" ")));
        assert_eq!(run, Vec::from_iter(expected), "{case}");
    }
}
