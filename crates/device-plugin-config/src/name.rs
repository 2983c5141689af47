//! Names of resources.

use std::fmt;

/// The prefix that the plugin adds to names without it.
pub const PREFIX: &str = "nvidia.com/";
/// The suffix that the plugin appends to the name of a shared resource with `renameByDefault`.
pub const SHARED_SUFFIX: &str = ".shared";
/// The plugin's limit for a whole name, and Kubernetes' limit for the part of a label after the
/// slash.
pub const LONGEST: usize = 63;
/// The part of a MIG device's name between prefix and profile.
const MIG: &str = "mig-";

/// A resource name that the plugin accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceName(String);

impl ResourceName {
    /// Creates the name, with its prefix.
    ///
    /// # Errors
    /// The plugin's message for a name that it refuses.
    pub fn new(written: &str) -> Result<Self, String> {
        let full = if written.starts_with(PREFIX) {
            written.to_owned()
        } else {
            format!("{PREFIX}{written}")
        };
        if full.len() > LONGEST {
            return Err(format!(
                "fully-qualified resource name must be {LONGEST} characters or less: {full}"
            ));
        }
        if !is_subdomain(&full[PREFIX.len()..]) {
            return Err(format!(
                "incorrect format for resource name '{full}': [lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part]"
            ));
        }
        Ok(Self(full))
    }

    /// Returns the name if the resource is shared and renamed.
    pub fn shared(&self) -> String {
        format!("{}{SHARED_SUFFIX}", self.0)
    }

    /// Returns the whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part after the prefix.
    pub fn short(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// Whether it is a name of MIG devices (strategy `mixed`).
    pub fn is_mig(&self) -> bool {
        self.short().starts_with(MIG)
    }

    /// Whether a device can have this name. The plugin has no other names, because it ignores
    /// `resources`.
    pub fn can_exist(&self) -> bool {
        self.short() == "gpu" || self.is_mig()
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Whether a text is a subdomain (RFC 1123).
fn is_subdomain(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let ends =
            label.bytes().next().is_some_and(allowed) && label.bytes().last().is_some_and(allowed);
        ends && label.bytes().all(|byte| allowed(byte) || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_judged() {
        assert_eq!(ResourceName::new("gpu").unwrap().as_str(), "nvidia.com/gpu");
        assert_eq!(
            ResourceName::new("nvidia.com/mig-1g.10gb.me").unwrap().shared(),
            "nvidia.com/mig-1g.10gb.me.shared"
        );
        for wrong in ["", "GPU", "example.com/gpu", "mig-1g.10gb+me", "-gpu", "gpu.", "a..b"] {
            assert!(ResourceName::new(wrong).is_err(), "{wrong}");
        }
    }
}
