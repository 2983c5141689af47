//! Names of resources, and which of them devices have.

use std::fmt;

/// What the plugin puts before names that do not have it.
pub const PREFIX: &str = "nvidia.com/";
/// What the plugin puts behind the name of a shared resource with `renameByDefault`.
pub const SHARED_SUFFIX: &str = ".shared";
/// The plugin's limit for a whole name, and Kubernetes' limit for the part behind the slash of a label.
pub const LONGEST: usize = 63;
/// What MIG devices are called, behind the prefix, before their profile.
const MIG: &str = "mig-";

/// A resource name that the plugin takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceName(String);

impl ResourceName {
    /// The name with its prefix.
    ///
    /// # Errors
    /// What the plugin says of a name that it does not take.
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

    /// The name under which it is offered when it is shared and renamed.
    pub fn shared(&self) -> String {
        format!("{}{SHARED_SUFFIX}", self.0)
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part behind the prefix.
    pub fn short(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// Whether it is a name of MIG devices (strategy `mixed`).
    pub fn is_mig(&self) -> bool {
        self.short().starts_with(MIG)
    }

    /// Whether some device can have this name: the plugin gives no others, because it ignores `resources`.
    pub fn can_exist(&self) -> bool {
        self.short() == "gpu" || self.is_mig()
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// RFC 1123, a subdomain.
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
