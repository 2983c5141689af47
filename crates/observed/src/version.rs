//! Versions of the GPU driver: two or more numbers (`550.90`, `580.126.20`), compared number by
//! number.

use std::fmt;

/// A driver version. Leading zeros are ignored: a ResourceSlice has `535.104.5` for the image tag
/// `535.104.05`. Trailing zero parts are ignored too, since a ResourceSlice extends `550.90` to
/// three parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverVersion(Vec<u32>);

impl DriverVersion {
    /// Reads a version, or the tag of a driver image (`<version>-<operating system>`,
    /// `<version>-<kernel>-<operating system>`). `None` for digests and anything else that does not
    /// start with two numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let version = text.split('-').next()?;
        let parts =
            version.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()?;
        if parts.len() < 2 {
            return None;
        }
        let significant =
            parts.iter().rposition(|part| *part != 0).map_or(1, |last| last + 1).max(2);
        Some(Self(parts.into_iter().take(significant).collect()))
    }

    /// Reads the version from an image reference.
    pub fn of_image(image: &str) -> Option<Self> {
        let (_, tag) = split_image(image);
        Self::parse(tag?)
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(u32::to_string).collect();
        formatter.write_str(&parts.join("."))
    }
}

/// Splits an image reference into name and tag or digest (`sha256:…`).
pub fn split_image(image: &str) -> (&str, Option<&str>) {
    if let Some((name, digest)) = image.split_once('@') {
        return (name, Some(digest));
    }
    match image.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        Some(_) | None => (image, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_do_not_count() {
        assert_eq!(DriverVersion::parse("535.104.05"), DriverVersion::parse("535.104.5"));
        assert_eq!(DriverVersion::parse("550.90"), DriverVersion::parse("550.90.0"));
        assert!(DriverVersion::parse("580.105.08") < DriverVersion::parse("580.126.20"));
    }

    #[test]
    fn tags_carry_more_than_the_version() {
        let of = |image| DriverVersion::of_image(image).map(|version| version.to_string());
        assert_eq!(
            of("nvcr.io/nvidia/driver:580.126.20-ubuntu22.04").as_deref(),
            Some("580.126.20")
        );
        assert_eq!(
            of("localhost:5000/nvidia/driver:550.90-5.15.0-91-generic-ubuntu22.04").as_deref(),
            Some("550.90")
        );
        assert_eq!(of("nvcr.io/nvidia/driver@sha256:0011"), None);
        assert_eq!(of("localhost:5000/nvidia/driver"), None);
        assert_eq!(of("nvcr.io/nvidia/driver:latest"), None);
    }
}
