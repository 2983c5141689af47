//! Bundles: what every recipe of the library becomes, what the script does with Helm, and what the command line says.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod render {
    mod argocd;
    mod command;
    pub(crate) mod crd_schema;
    mod edits;
    mod flux;
    mod helm;
    mod helmfile;
    mod injection;
    mod library;
    mod many;
    mod modes;
    mod parity;
    mod reading;
    mod script;
    mod snapshot;
    mod tools;
    mod traps;
    mod traps_everywhere;
}
