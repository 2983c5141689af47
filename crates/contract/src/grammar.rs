//! The grammars of texts that become part of names, URLs and command lines: one row each in
//! [`GRAMMARS`]. The schema of recipes names the grammar of every text (`x-grammar`), and the
//! options of the command line use the same grammars.

use semver::{Version, VersionReq};

use super::acceptance::is_test_name;
use super::git_source;
use super::image_reference::is_image_reference;
use super::selector::{Selector, is_label_key, is_label_value};
use super::visible::is_hidden;

/// Maximum length of a release name in Helm.
const LONGEST_RELEASE_NAME: usize = 53;
/// Maximum length of a line of free text.
const LONGEST_LINE: usize = 1000;
/// Maximum length of a text in a command line or URL.
pub(super) const LONGEST_WORD: usize = 2000;
/// Maximum length of the names of most Kubernetes objects.
pub(super) const LONGEST_SUBDOMAIN: usize = 253;
/// Maximum length of an image tag.
const LONGEST_TAG: usize = 128;
/// Number of hexadecimal digits of a SHA-256 digest.
const DIGEST_LENGTH: usize = 64;

/// The form of a text.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// The name in the schema.
    pub name: &'static str,
    /// Returns whether a text has this form.
    pub fits: fn(&str) -> bool,
    /// The predicate of an error message about a text of another form: "… is not …".
    pub what: &'static str,
    /// How to write such a text.
    pub hint: &'static str,
    /// A valid text.
    pub example: &'static str,
}

/// The table.
pub const GRAMMARS: &[Grammar] = &[
    Grammar {
        name: "recipeName",
        fits: is_dns_label,
        what: "is not a valid recipe name",
        hint: "use lower-case letters, digits and dashes, a letter or digit at both ends, at most 63 characters",
        example: "example",
    },
    Grammar {
        name: "namespace",
        fits: is_dns_label,
        what: "is not a valid namespace name",
        hint: "use lower-case letters, digits and dashes, a letter or digit at both ends, at most 63 characters",
        example: "example",
    },
    Grammar {
        name: "componentName",
        fits: is_release_name,
        what: "is not a valid component name",
        hint: "use lower-case letters, digits and dashes, a letter or digit at both ends, at most 53 characters",
        example: "example",
    },
    Grammar {
        name: "line",
        fits: is_line,
        what: "is not one line of text",
        hint: "write at most 1000 characters without line breaks and control characters",
        example: "example",
    },
    Grammar {
        name: "reference",
        fits: |text| is_line(text) && !text.starts_with('-'),
        what: "is neither the name of a library recipe nor a path",
        hint: "write a name such as `base`, or a path such as `../team.yaml`, without line breaks and control characters",
        example: "base",
    },
    Grammar {
        name: "kubernetesVersions",
        fits: |text| is_word(text, 100, ".<>=^~*, -+") && VersionReq::parse(text).is_ok(),
        what: "is not a range of Kubernetes versions",
        hint: "write `\">=1.32\"` or `\">=1.32, <1.36\"`",
        example: ">=1.32",
    },
    Grammar {
        name: "driverVersion",
        fits: |text| is_tag(text) || is_digest(text),
        what: "is not a driver version",
        hint: "write the tag of the driver's image, such as `580.126.20`, or its digest: `sha256:` and 64 digits",
        example: "580.126.20",
    },
    Grammar {
        name: "chartVersion",
        fits: |text| {
            text.len() <= LONGEST_SUBDOMAIN
                && Version::parse(text.strip_prefix('v').unwrap_or(text)).is_ok()
        },
        what: "is not a chart version",
        hint: "write a version such as `1.2.3` or `v1.2.3`",
        example: "1.2.3",
    },
    Grammar {
        name: "chartName",
        fits: is_chart_name,
        what: "is not a valid chart name",
        hint: "use letters, digits, `-`, `_` and `.`, a letter or digit first; the part before a slash belongs in `repository`",
        example: "example",
    },
    Grammar {
        name: "chartRepository",
        fits: |text| repository_problem(text).is_none(),
        what: "is not a chart repository URL",
        hint: "write `https://…` or `oci://…`, without the chart's name; if the repository needs a password, log in with Helm",
        example: "https://charts.example.com/stable",
    },
    Grammar {
        name: "gitRepository",
        fits: git_source::is_git_repository,
        what: "is not the URL of a Git repository",
        hint: "write `https://…` or `ssh://…`; if the repository needs a password, give the deployer a Secret",
        example: "https://git.example.com/team/app.git",
    },
    Grammar {
        name: "gitRevision",
        fits: git_source::is_git_revision,
        what: "is not a tag or commit",
        hint: "write the name of a tag, such as `v1.2.3`, or all 40 digits of a commit",
        example: "v1.2.3",
    },
    Grammar {
        name: "gitPath",
        fits: git_source::is_git_path,
        what: "is not a path in a repository",
        hint: "write the path of a directory from the repository's root, such as `deploy/base`, without `..`",
        example: "deploy/base",
    },
    Grammar {
        name: "labelKey",
        fits: is_label_key,
        what: "is not a label key",
        hint: "write only the key of the label, such as `nvidia.com/gpu.clique` or `topology.kubernetes.io/rack`",
        example: "example.com/key",
    },
    Grammar {
        name: "labelValue",
        fits: is_label_value,
        what: "is not a label value",
        hint: "use letters, digits, `-`, `_` and `.`, a letter or digit at both ends, at most 63 characters",
        example: "example",
    },
    Grammar {
        name: "selector",
        fits: |text| {
            text.chars().all(|each| matches!(each, ' '..='~')) && text.parse::<Selector>().is_ok()
        },
        what: "is not a label selector",
        hint: "write a label selector such as `app=train`, `tier in (a,b)` or `!keep`; commas join requirements that must all hold",
        example: "app=example",
    },
    Grammar {
        name: "interval",
        fits: is_interval,
        what: "is not an interval",
        hint: "write one number with its unit: `500ms`, `15s`, `1m`",
        example: "30s",
    },
    Grammar {
        name: "configName",
        fits: |text| !text.starts_with('-') && is_word(text, LONGEST_SUBDOMAIN, "-._"),
        what: "is not a configuration name",
        hint: "use letters, digits, `-`, `_` and `.`",
        example: "example",
    },
    Grammar {
        name: "secretName",
        fits: is_dns_subdomain,
        what: "is not a valid Secret name",
        hint: "use lower-case letters, digits, `-` and `.`, a letter or digit at both ends, at most 253 characters",
        example: "registry.example",
    },
    Grammar {
        name: "testName",
        fits: is_test_name,
        what: "is not a valid name of a test",
        hint: "use lower-case letters, digits and dashes, a letter or digit at both ends, at most 40 characters",
        example: "example",
    },
    Grammar {
        name: "image",
        fits: is_image_reference,
        what: "is not the reference of an image",
        hint: "write registry, path and tag, such as `nvcr.io/nvidia/cuda:12.9.1-base-ubuntu24.04`, without `https://`",
        example: "registry.example.com/test:1.0",
    },
    Grammar {
        name: "objectName",
        fits: is_dns_subdomain,
        what: "is not a valid name of an object",
        hint: "use lower-case letters, digits, `-` and `.`, a letter or digit at both ends, at most 253 characters",
        example: "example",
    },
    Grammar {
        name: "environmentName",
        fits: |text| {
            !text.starts_with(|first: char| first.is_ascii_digit())
                && is_word(text, LONGEST_SUBDOMAIN, "_")
        },
        what: "is not the name of an environment variable",
        hint: "use letters, digits and `_`, no digit first",
        example: "example",
    },
    Grammar {
        name: "manifestName",
        fits: is_manifest_name,
        what: "is not the name of a manifest file",
        hint: "write a file name such as `quota.yaml`: letters, digits, `-`, `_` and `.`, a letter or digit first, with the ending `.yaml`",
        example: "example.yaml",
    },
    Grammar {
        name: "manifest",
        fits: |text| !text.contains(|one: char| one.is_control() && !matches!(one, '\n' | '\t')),
        what: "is not the text of a manifest file",
        hint: "write YAML with line breaks, and without other control characters",
        example: "# example",
    },
    // Any text is valid: every writer quotes it.
    Grammar {
        name: "text",
        fits: |_| true,
        what: "is not a text",
        hint: "write a text",
        example: "example",
    },
];

impl Grammar {
    /// Returns why a text does not have this form; `None` if no details are known.
    pub fn reason(&self, text: &str) -> Option<String> {
        match self.name {
            "selector" => text.parse::<Selector>().err().map(|error| error.reason().to_owned()),
            "kubernetesVersions" => VersionReq::parse(text).err().map(|error| error.to_string()),
            _ => None,
        }
    }
}

/// Returns the grammar with this name.
pub fn grammar(name: &str) -> Option<&'static Grammar> {
    GRAMMARS.iter().find(|grammar| grammar.name == name)
}

/// Reads the name of a Secret from the command line.
///
/// # Errors
/// The text is not a valid name; the message says how to write one.
pub fn secret_name(text: &str) -> Result<String, String> {
    let name = |grammar: &Grammar| {
        if (grammar.fits)(text) {
            None
        } else {
            Some(format!("the name {}: {}", grammar.what, grammar.hint))
        }
    };
    grammar("secretName").and_then(name).map_or_else(|| Ok(text.to_owned()), Err)
}

/// Returns a text as a message can show it: on one line, and shortened.
pub fn shown(text: &str) -> String {
    const MOST: usize = 80;
    let escape = |character: char| {
        if is_hidden(character) || !character.is_ascii() && character.is_whitespace() {
            character.escape_default().to_string()
        } else {
            character.to_string()
        }
    };
    let mut shown: String = text.chars().take(MOST).map(escape).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// RFC 1123 label: the form of names of namespaces, releases and recipes.
pub(super) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// RFC 1123 subdomain, labels separated by dots: the form of names of most objects.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && text.split('.').all(is_dns_part)
}

/// Lower-case letters, digits and dashes, with a letter or digit at both ends.
fn is_dns_part(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.bytes().next().is_some_and(allowed) && text.bytes().last().is_some_and(allowed);
    ends && text.bytes().all(|byte| allowed(byte) || byte == b'-')
}

fn is_release_name(text: &str) -> bool {
    text.len() <= LONGEST_RELEASE_NAME && is_dns_label(text)
}

/// Returns whether a text is one line of free text.
pub fn is_line(text: &str) -> bool {
    let is_break = |character: char| {
        character.is_control()
            || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    !text.trim().is_empty() && text.chars().count() <= LONGEST_LINE && !text.contains(is_break)
}

/// A chart name in Helm (`chart/metadata.go`: a file name) that cannot be mistaken for a
/// command-line option.
fn is_chart_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && is_word(text, LONGEST_SUBDOMAIN, "-_.")
        && !text.contains("..")
}

/// A file name without a path that no tool interprets.
fn is_manifest_name(text: &str) -> bool {
    text.strip_suffix(".yaml").is_some_and(is_chart_name)
}

/// Returns whether a text is the tag of an image.
pub fn is_tag(text: &str) -> bool {
    !text.starts_with(['.', '-']) && is_word(text, LONGEST_TAG, "-_.")
}

/// Returns whether a text is a SHA-256 digest with its algorithm: `sha256:…`.
pub fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|digits| {
        digits.len() == DIGEST_LENGTH
            && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns whether a text is the name of an image without tag and digest, or the start of such a
/// name: `registry.example.com:5000/team/image`.
pub fn is_image_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let ends = [part.chars().next(), part.chars().next_back()];
        ends.iter().all(|end| end.is_some_and(|end| end.is_ascii_alphanumeric()))
            && is_word(part, LONGEST_SUBDOMAIN, "._-:")
    };
    text.len() <= LONGEST_WORD && text.split('/').all(is_part)
}

/// Returns why a text is not a chart repository URL.
pub fn repository_problem(url: &str) -> Option<&'static str> {
    let rest = ["https://", "http://", "oci://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { return Some("is not a URL") };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    if host.contains('@') {
        return Some("contains a user name or password");
    }
    if !is_address(url) {
        return Some("contains a space, a quote or another character that is not allowed in a URL");
    }
    let is_host = host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
    (!is_host || url.len() > LONGEST_WORD).then_some("is not a URL")
}

/// Returns whether all characters of a text are allowed in a URL (RFC 3986), without those that a
/// shell or a template interprets.
pub fn is_address(text: &str) -> bool {
    text.chars().all(|character| {
        character.is_ascii_alphanumeric() || "-._~:/?#[]@&+,=%".contains(character)
    })
}

/// The form in the hook chart's schema: a number from 1, with one unit.
fn is_interval(text: &str) -> bool {
    let digits = text.len() - text.trim_start_matches(|one: char| one.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    number.starts_with(|first: char| first != '0') && ["ms", "s", "m", "h"].contains(&unit)
}

/// Letters, digits and the characters of `more`, up to a maximum length.
pub(super) fn is_word(text: &str, longest: usize, more: &str) -> bool {
    let fits = |character: char| character.is_ascii_alphanumeric() || more.contains(character);
    !text.is_empty() && text.len() <= longest && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts that some tool would interpret as an option, a template, a command or a second line.
    const HOSTILE: [&str; 14] = [
        "-o",
        "--post-renderer",
        "{{ exec }}",
        "a\nb",
        "a\n---\nb",
        "a: b",
        "a\"b",
        "a'b",
        "a`b`",
        "$(touch x)",
        "a;b",
        "a\tb",
        "a\0b",
        "a\u{a0}b",
    ];

    #[test]
    fn example_fits_and_hostile_text_does_not() {
        for grammar in GRAMMARS {
            assert!((grammar.fits)(grammar.example), "{}", grammar.name);
            if ["text", "line", "reference", "manifest"].contains(&grammar.name) {
                continue;
            }
            for hostile in HOSTILE {
                assert!(!(grammar.fits)(hostile), "{}: {hostile:?}", grammar.name);
                assert!(
                    !(grammar.fits)(&format!("{}{hostile}", grammar.example))
                        || hostile.starts_with('-'),
                    "{}: {hostile:?}",
                    grammar.name
                );
            }
        }
        for line in ["", " ", "a\nb", "a\u{2028}b", "a\u{1b}[31m", "a\0"] {
            assert!(!is_line(line), "{line:?}");
        }
    }

    #[test]
    fn interval_is_one_number_with_its_unit() {
        for good in ["15s", "500ms", "1m", "2h"] {
            assert!(is_interval(good), "{good}");
        }
        for bad in ["", "s", "0s", "015s", "1m30s", "15", "15 s", "1d"] {
            assert!(!is_interval(bad), "{bad}");
        }
    }

    #[test]
    fn addresses_and_image_names_are_told_from_others() {
        for good in [
            "https://a.example.com/x",
            "http://127.0.0.1:8080",
            "oci://a.example.com/x?y=z",
            "http://[::1]:80/a",
        ] {
            assert_eq!(repository_problem(good), None, "{good}");
        }
        for bad in [
            "",
            "https://",
            "ftp://a",
            "https://u:p@a/b",
            "https://a/'",
            "https://a/$x",
            "https://a/{b}",
            "https://-a",
            "https://a b",
            "oci:///a",
        ] {
            assert!(repository_problem(bad).is_some(), "{bad}");
        }
        for (name, fits) in [
            ("nvcr.io/nvidia", true),
            ("localhost:5000/a_b", true),
            ("-a", false),
            ("a//b", false),
            ("a/", false),
            ("/a", false),
            ("a/.b", false),
        ] {
            assert_eq!(is_image_name(name), fits, "{name}");
        }
        for (name, fits) in [
            ("a.b-c", true),
            ("a", true),
            ("A", false),
            ("a..b", false),
            (".a", false),
            ("a-", false),
            (&"a.".repeat(127)[..253], true),
        ] {
            assert_eq!(is_dns_subdomain(name), fits, "{name}");
        }
    }
}
