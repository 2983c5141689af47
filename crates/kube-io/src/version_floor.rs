//! The newest version of each resource that any watch of it has shown. A list that is asked for after that and is older comes from whoever is
//! behind: pods that are there would seem not to be. Versions of one resource can be compared, whatever namespace or selector they are seen by
//! (KEP-5504).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Of all resources.
#[derive(Clone, Debug, Default)]
pub struct ResourceVersionFloors {
    all: Arc<Mutex<BTreeMap<String, ResourceVersionFloor>>>,
}

/// Of one resource. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ResourceVersionFloor(Arc<AtomicU64>);

impl ResourceVersionFloors {
    /// Of the resource with this path, such as `/api/v1/namespaces/a/pods`.
    pub(super) fn for_path(&self, path: &str) -> ResourceVersionFloor {
        let resource = path.rsplit('/').next().unwrap_or_default();
        // Nothing panics while this is held.
        self.all.lock().unwrap_or_else(PoisonError::into_inner).entry(resource.to_owned()).or_default().clone()
    }
}

impl ResourceVersionFloor {
    /// What has been shown so far.
    pub(super) fn shown(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Something was shown.
    pub(super) fn shows(&self, version: u64) {
        self.0.fetch_max(version, Ordering::Relaxed);
    }
}
