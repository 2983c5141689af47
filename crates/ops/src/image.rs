//! Driver versions as people know them: as images' tags have them.

use contract::driver::Driver;
use observed::ObservedPod;
use observed::version::{DriverVersion, split_image};

/// The version that an image's tag tells, or the tag as it is.
pub(crate) fn version(image: &str) -> String {
    let tag = || split_image(image).1.unwrap_or(image).to_owned();
    DriverVersion::of_image(image).map_or_else(tag, |_| {
        // As it is written: a version without its zeros is not the name that people know.
        split_image(image).1.and_then(|tag| tag.split('-').next()).unwrap_or(image).to_owned()
    })
}

/// The version that a driver pod has.
pub(crate) fn running(pod: &ObservedPod, driver: Driver) -> Option<String> {
    let container = driver.traits().container;
    let main = pod.containers.iter().find(|one| one.name == container || container.is_empty())?;
    Some(version(&main.image))
}
