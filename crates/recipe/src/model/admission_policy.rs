//! The admission policies of the hooks, with the same keys as in the hook chart's values.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// ValidatingAdmissionPolicies that narrow what RBAC cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeAdmissionPolicy {
    /// Whether each hook release contains policies: its hook may change on nodes only what its
    /// tasks need, and only hooks may write the Lease, the pauses, triggers and run records.
    pub enabled: bool,
    /// Users that may also write these objects, such as those who pause rollouts. Identities that
    /// may install the hooks need not be named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "line"}))]
    pub users: Vec<String>,
    /// Groups whose members may also write these objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = {"type": "string", "x-grammar": "line"}))]
    pub groups: Vec<String>,
}
