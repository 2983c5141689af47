//! What is deployed, written down as a recipe: the same rules that hold a recipe to what goes together hold a live cluster to it.

use serde_json::{Map, Value, json};

use crate::cluster::helm::Deployed;

/// A component of the catalog as it is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its name in recipes.
    pub name: String,
    /// The chart's version.
    pub version: String,
    /// Its namespace.
    pub namespace: String,
    /// The values that it was given; `None`: they could not be read.
    pub values: Option<Map<String, Value>>,
}

impl Component {
    /// A release that is of this component's chart.
    pub fn of_release(name: &str, release: &Deployed) -> Self {
        Self {
            name: name.to_owned(),
            version: release.version.clone(),
            namespace: release.namespace.clone(),
            values: Some(release.values.clone()),
        }
    }
}

/// The recipe. `kubernetes`: the server's version as `major.minor`; `nodes`: how many have GPUs.
pub fn recipe(components: &[Component], kubernetes: Option<&str>, nodes: usize) -> Value {
    let component = |one: &Component| {
        let mut written = json!({"name": one.name, "version": one.version, "namespace": one.namespace});
        if let Some(values) = one.values.as_ref().filter(|values| !values.is_empty()) {
            written["values"] = Value::Object(values.clone());
        }
        written
    };
    let mut cluster = json!({"gpuNodes": nodes.max(1)});
    if let Some(version) = kubernetes {
        cluster["kubernetes"] = format!("={version}").into();
    }
    json!({
        "apiVersion": "gpu-rollout.dev/v1",
        "kind": "Recipe",
        "metadata": {"name": "deployed"},
        "cluster": cluster,
        "components": components.iter().map(component).collect::<Vec<_>>(),
    })
}
