//! Tests of the bundles of all library recipes, as rendered and as the real deployers read them.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod render {
    mod aicr;
    mod argocd;
    pub(crate) mod crd_schema;
    mod edits;
    mod flux;
    mod helm;
    mod helmfile;
    mod hostile;
    mod injection;
    mod kustomization;
    mod library;
    mod manifests;
    mod modes;
    mod parity;
    mod reading;
    mod script;
    mod snapshot;
    mod tools;
    mod traps;
    mod traps_everywhere;
}
