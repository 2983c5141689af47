//! The newest version of each resource that any watch of it has shown. A list that is asked for after that and is older comes from whoever is
//! behind: pods that are there would seem not to be. Versions of one resource can be compared, whatever namespace or selector they are seen by
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
    /// Returns the floor that all collections of a resource have in common.
    pub(super) fn for_resource(&self, resource: &str) -> ResourceVersionFloor {
        // Nothing panics while this is held.
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
