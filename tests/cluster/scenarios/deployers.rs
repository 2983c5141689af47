//! Bundles under the real deployers: run by name, for their programs take long to build.

mod argocd;
mod flux;
