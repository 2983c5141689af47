//! The same story with each deployer that runs in the cluster. Run by name: their programs take minutes to build.

mod argocd;
