//! The resource-version floor: the newest version of each resource that any watch has shown. An
//! older list that was requested later comes from a server that is behind, and existing pods would
//! be missing from it. Versions of one resource can be compared across namespaces and selectors
//! (KEP-5504).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The floors of all resources.
#[derive(Clone, Debug, Default)]
pub struct ResourceVersionFloors {
    all: Arc<Mutex<BTreeMap<String, ResourceVersionFloor>>>,
}

/// The floor of one resource. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceVersionFloor(Arc<AtomicU64>);

impl ResourceVersionFloors {
    /// Returns the floor that all collections of a resource share.
    pub(super) fn for_resource(&self, resource: &str) -> ResourceVersionFloor {
        // No code panics while it holds this lock.
        self.all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(resource.to_owned())
            .or_default()
            .clone()
    }
}

impl ResourceVersionFloor {
    /// Returns the newest version that any watch has shown.
    pub(super) fn current(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that a watch has shown a version.
    pub(super) fn raise(&self, version: u64) {
        self.0.fetch_max(version, Ordering::Relaxed);
    }
}
