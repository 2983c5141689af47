//! End-to-end tests on a real control plane: etcd, kube-apiserver, controller-manager and scheduler
//! as plain processes, kwok for the GPU nodes, a small node agent that runs the hook's own image
//! under bubblewrap, real Helm, and stand-ins for NVIDIA's controllers.
//!
//! Run them with `make e2e` (or `tests/e2e/run.sh [FILTER]`). `harness` runs clusters and
//! stand-ins, `scenarios` contains the stories.
#![expect(clippy::disallowed_methods, reason = "tests read the clock and their environment")]
#![expect(clippy::print_stderr, reason = "a failed scenario says where its logs are")]

mod harness;
mod scenarios;
