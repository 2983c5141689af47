//! How often hooks fired: every Job that there has been, as the API server told it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::task::JoinHandle;

use super::hook_release::HookRelease;

/// Namespace and name of each Job by its UID.
type Jobs = Rc<RefCell<BTreeMap<String, (String, String)>>>;

/// Counts from now on; dropping it ends the counting.
pub(crate) struct Firings {
    jobs: Jobs,
    watch: JoinHandle<()>,
}

impl Firings {
    /// Starts to count.
    pub(crate) fn record(client: &Client) -> Self {
        let jobs = Jobs::default();
        let (seen, api) = (Rc::clone(&jobs), Api::<Job>::all(client.clone()));
        let watch = tokio::task::spawn_local(async move {
            let mut events = std::pin::pin!(watcher(api, Config::default()));
            while let Some(event) = events.next().await {
                // A broken watch goes on where it was.
                if let Ok(Event::Apply(job) | Event::InitApply(job) | Event::Delete(job)) = event {
                    seen.borrow_mut().insert(job.uid().unwrap_or_default(), (job.namespace().unwrap_or_default(), job.name_any()));
                }
            }
        });
        Self { jobs, watch }
    }

    /// How often this hook has fired.
    pub(crate) fn of(&self, hook: &HookRelease<'_>) -> usize {
        let is_its = |(namespace, name): &&(String, String)| namespace == hook.namespace() && name == hook.name();
        self.jobs.borrow().values().filter(is_its).count()
    }
}

impl Drop for Firings {
    fn drop(&mut self) {
        self.watch.abort();
    }
}
