//! Driver versions as they are in image tags.

use contract::driver::Driver;
use observed::ObservedPod;
use observed::version::{DriverVersion, split_image};

/// Returns the driver version in an image's tag, or the tag itself if it contains none.
pub(crate) fn version(image: &str) -> String {
    let tag = || split_image(image).1.unwrap_or(image).to_owned();
    DriverVersion::of_image(image).map_or_else(tag, |_| {
        // As in the tag: without leading zeros, people would not recognize the version.
        split_image(image).1.and_then(|tag| tag.split('-').next()).unwrap_or(image).to_owned()
    })
}

/// Returns the driver version of a driver pod.
pub(crate) fn running(pod: &ObservedPod, driver: Driver) -> Option<String> {
    let container = driver.traits().container;
    let main = pod.containers.iter().find(|one| one.name == container || container.is_empty())?;
    Some(version(&main.image))
}
