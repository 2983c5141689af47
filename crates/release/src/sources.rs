//! The charts' repositories: the catalog's, or those that `--chart-repository NAME=URL` replaces
//! them with.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::model::ChartOrigin;
use catalog::model::CatalogComponent;
use contract::grammar::{is_line, repository_problem, shown};
use contract::user_info::{mask_user_info, user_info};

/// One `--chart-repository NAME=URL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryOverride {
    /// The repository's name in the catalog.
    pub name: String,
    /// The address that replaces it.
    pub url: String,
}

/// Why a text is not a [`RepositoryOverride`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryOverrideError {
    /// No `=`, or nothing before or after it.
    #[error("expected NAME=URL, found `{0}`")]
    Form(String),
    /// An address of another kind.
    #[error(
        "expected an address that starts with https://, http://, oci:// or file:///, or the absolute path of a directory, found `{0}`"
    )]
    Scheme(String),
    /// A user or password in the address.
    #[error(
        "the address of `{0}` contains a user name or password, which every reader of the bundle would see; log in with Helm instead"
    )]
    Secret(String),
    /// Characters that are not allowed in an address.
    #[error(
        "the address of `{0}` has a space, a quote or another character that is not allowed in an address"
    )]
    Characters(String),
    /// Characters in a path that have a meaning for some tool.
    #[error(
        "the directory of `{0}` has a quote, a brace, a comma, `$`, `\\` or a control character in its path; use a symbolic link with another name"
    )]
    Path(String),
}

impl FromStr for RepositoryOverride {
    type Err = RepositoryOverrideError;

    fn from_str(text: &str) -> Result<Self, RepositoryOverrideError> {
        // First, because other errors repeat the text.
        if user_info(text).is_some() {
            // Without a name, what precedes `=` may be a part of the password.
            let is_name = |name: &&str| !name.is_empty() && !name.contains(['/', ':', '@']);
            let name = text.split_once('=').map(|(name, _)| name).filter(is_name);
            return Err(match name {
                Some(name) => RepositoryOverrideError::Secret(name.to_owned()),
                None => RepositoryOverrideError::Form(mask_user_info(text, text)),
            });
        }
        let (name, url) = text
            .split_once('=')
            .filter(|(name, url)| !name.is_empty() && !url.is_empty())
            .ok_or_else(|| RepositoryOverrideError::Form(text.to_owned()))?;
        let address = url.strip_prefix("file://").unwrap_or(url);
        if address.starts_with('/') {
            // Tools interpret braces as templates and strip quotes, and Helm separates at commas.
            if !is_line(address) || address.contains(['{', '}', '"', '\'', '`', '\\', '$', ',']) {
                return Err(RepositoryOverrideError::Path(name.to_owned()));
            }
        } else if let Some(problem) = repository_problem(url) {
            let remote = ["https://", "http://", "oci://"]
                .iter()
                .find_map(|scheme| url.strip_prefix(scheme));
            return Err(match remote.filter(|rest| !rest.is_empty()) {
                Some(rest) if rest.split('/').next().is_some_and(|host| host.contains('@')) => {
                    RepositoryOverrideError::Secret(name.to_owned())
                }
                Some(_) if problem != "is not a URL" => {
                    RepositoryOverrideError::Characters(name.to_owned())
                }
                Some(_) | None => RepositoryOverrideError::Scheme(shown(url)),
            });
        }
        Ok(Self { name: name.to_owned(), url: address.trim_end_matches('/').to_owned() })
    }
}

/// Returns the origin of `component`'s chart in `version`.
pub(super) fn chart(
    component: &CatalogComponent,
    version: &str,
    overrides: &BTreeMap<String, String>,
) -> ChartOrigin {
    let (repository, chart) = (component.repository_in(version), component.chart_in(version));
    let url = overrides.get(&repository.name).unwrap_or(&repository.url).trim_end_matches('/');
    if url.starts_with("oci://") {
        ChartOrigin::Oci(format!("{url}/{chart}"))
    } else if url.starts_with('/') {
        ChartOrigin::File(format!("{url}/{chart}-{version}.tgz"))
    } else {
        ChartOrigin::Repository { url: url.to_owned(), name: chart.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_address_kinds_are_accepted_others_refused() {
        for (text, url) in [
            ("a=https://example.com/charts/", "https://example.com/charts"),
            ("a=http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("a=oci://example.com/charts", "oci://example.com/charts"),
            ("a=file:///mnt/charts", "/mnt/charts"),
            ("a=/mnt/my charts", "/mnt/my charts"),
            ("a=https://example.com/?x=y", "https://example.com/?x=y"),
        ] {
            assert_eq!(text.parse::<RepositoryOverride>().unwrap().url, url);
        }
        for bad in [
            "",
            "a",
            "=b",
            "a=",
            "a=charts",
            "a=./charts",
            "a=ftp://x",
            "a=https://",
            "a=https://u:p@x/y",
            "a=https://x/'",
            "a=https://x y",
            "a=https://x/{{y}}",
            "a=https://x/$y",
            "a=https://-x",
            "a=/mnt/{{x}}",
            "a=/mnt/a\nb",
            "a=/mnt/$(x)",
        ] {
            assert!(bad.parse::<RepositoryOverride>().is_err(), "{bad}");
        }
    }

    #[test]
    fn passwords_are_not_repeated() {
        for text in [
            "nvidia=https://user:word@example.com/a",
            "nvidia=ftp://user:word@example.com",
            "nvidia=user:word@example.com",
            "nvidia=https://user:wo/word@example.com",
            "https://user:word@example.com",
            "https://user:a=word@example.com",
        ] {
            let error = text.parse::<RepositoryOverride>().unwrap_err();
            assert!(!error.to_string().contains("word@"), "{error}");
            let has_name = text.starts_with("nvidia");
            let is_secret = error == RepositoryOverrideError::Secret("nvidia".to_owned());
            assert_eq!(is_secret, has_name, "{text}");
        }
    }
}
