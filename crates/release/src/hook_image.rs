//! The hook's image, if it is not the chart's default.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value, json};

use contract::image_reference::{is_image_reference, split};
use contract::user_info::mask_user_info;

/// `REPOSITORY[:TAG|@DIGEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookImage {
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Why a text is not a [`HookImage`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `REPOSITORY`, `REPOSITORY:TAG` or `REPOSITORY@sha256:DIGEST`, found `{0}`")]
pub struct HookImageError(String);

impl HookImage {
    /// Returns the hook chart's `rollout.image`. Sets both tag and digest, so that no default of
    /// the chart applies.
    pub fn values(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("repository".to_owned(), json!(self.repository));
        if self.tag.is_some() || self.digest.is_some() {
            map.insert("tag".to_owned(), json!(self.tag.as_deref().unwrap_or_default()));
            map.insert("digest".to_owned(), json!(self.digest.as_deref().unwrap_or_default()));
        }
        map
    }
}

impl FromStr for HookImage {
    type Err = HookImageError;

    fn from_str(text: &str) -> Result<Self, HookImageError> {
        let (repository, tag, digest) = split(text);
        if !is_image_reference(text) || (tag.is_some() && digest.is_some()) {
            return Err(HookImageError(mask_user_info(text, text)));
        }
        Ok(Self {
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

impl fmt::Display for HookImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.repository)?;
        match (&self.tag, &self.digest) {
            (_, Some(digest)) => write!(formatter, "@{digest}"),
            (Some(tag), None) => write!(formatter, ":{tag}"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_and_port_are_told_apart() {
        let image: HookImage = "localhost:5000/tools/gpu-rollout:0.1.0".parse().unwrap();
        assert_eq!(
            json!(image.values()),
            json!({"repository": "localhost:5000/tools/gpu-rollout", "tag": "0.1.0", "digest": ""})
        );
        let plain: HookImage = "localhost:5000/gpu-rollout".parse().unwrap();
        assert_eq!(json!(plain.values()), json!({"repository": "localhost:5000/gpu-rollout"}));
        let digest = format!("example.com/a@sha256:{}", "0a".repeat(32));
        assert_eq!(digest.parse::<HookImage>().unwrap().to_string(), digest);
        for bad in [
            "",
            ":tag",
            "a:",
            "a@sha256:12",
            "a b",
            "/a",
            "a/",
            "a:t@sha256:",
            "a;rm",
            "a:t'",
            "-a",
            "a:-t",
            "a/-b",
        ] {
            assert!(bad.parse::<HookImage>().is_err(), "{bad}");
        }
    }

    #[test]
    fn password_in_image_is_not_repeated() {
        for bad in ["https://user:word@a/b", "user:word@a/b:v1"] {
            let error = bad.parse::<HookImage>().unwrap_err().to_string();
            assert!(error.contains("***@a/b") && !error.contains("word"), "{error}");
        }
    }
}
