//! Kubernetes I/O: watches and actions. Decides nothing.
