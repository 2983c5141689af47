//! Secrets that are recognized by their form alone: tokens with the prefix of their issuer, and
//! some keys of fixed length. Sources: the issuers' documentation.

use std::ops::Range;
use std::sync::LazyLock;

use super::random::{is_dense, looks_random};

/// The characters of a token after its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alphabet {
    /// Letters, digits, `-` and `_`; the token looks random.
    Word,
    /// As [`Self::Word`], and `.`, `+`, `/`, `=`, `~`.
    Base64,
    /// Capitals and digits.
    Capital,
    /// Hexadecimal digits in lower case.
    Hexadecimal,
}

use Alphabet::{Base64, Capital, Hexadecimal, Word};

/// A kind of token.
struct TokenForm {
    prefix: &'static str,
    /// The minimum number of characters after the prefix.
    rest: usize,
    alphabet: Alphabet,
}

const fn form(prefix: &'static str, rest: usize, alphabet: Alphabet) -> TokenForm {
    TokenForm { prefix, rest, alphabet }
}

/// One more than the longest key without a prefix.
const LONGEST_KEY: usize = 200;

/// The table, by issuer.
const FORMS: &[TokenForm] = &[
    // NVIDIA
    form("nvapi-", 24, Word),
    // Amazon: access keys, temporary ones, tokens of EKS
    form("AKIA", 16, Capital),
    form("ASIA", 16, Capital),
    form("AROA", 16, Capital),
    form("ABIA", 16, Capital),
    form("ACCA", 16, Capital),
    form("k8s-aws-v1.", 16, Base64),
    // Google
    form("AIza", 30, Word),
    form("ya29.", 16, Base64),
    form("GOCSPX-", 16, Word),
    form("1//0", 24, Word),
    // Other clouds
    form("LTAI", 12, Word),
    form("AKID", 13, Word),
    form("dop_v1_", 32, Hexadecimal),
    form("doo_v1_", 32, Hexadecimal),
    form("dor_v1_", 32, Hexadecimal),
    form("HRKU-", 24, Word),
    form("v1.0-", 32, Word),
    form("fm1_", 24, Base64),
    form("fm2_", 24, Base64),
    form("fo1_", 24, Word),
    form("dapi", 32, Hexadecimal),
    form("t1.9euel", 24, Base64),
    // Kubernetes and OpenShift
    form("sha256~", 30, Word),
    // GitHub
    form("ghp_", 20, Word),
    form("gho_", 20, Word),
    form("ghu_", 20, Word),
    form("ghs_", 20, Word),
    form("ghr_", 20, Word),
    form("github_pat_", 22, Word),
    // GitLab
    form("glpat-", 16, Word),
    form("gldt-", 16, Word),
    form("glrt-", 16, Word),
    form("glcbt-", 16, Word),
    form("glptt-", 16, Word),
    form("glft-", 16, Word),
    form("glsoat-", 16, Word),
    form("glagent-", 16, Word),
    form("glimt-", 16, Word),
    form("GR1348941", 16, Word),
    // Atlassian, Bitbucket
    form("ATATT3", 24, Base64),
    form("ATCTT3", 24, Base64),
    form("ATBB", 24, Word),
    // Chat
    form("xoxb-", 16, Word),
    form("xoxp-", 16, Word),
    form("xoxa-", 16, Word),
    form("xoxr-", 16, Word),
    form("xoxs-", 16, Word),
    form("xoxc-", 16, Word),
    form("xoxd-", 16, Base64),
    form("xoxe-", 16, Word),
    form("xoxe.", 16, Base64),
    form("xapp-", 16, Word),
    // HashiCorp
    form("hvs.", 20, Word),
    form("hvb.", 20, Word),
    form("hvr.", 20, Word),
    form("atlasv1.", 24, Word),
    // Packages and registries
    form("npm_", 24, Word),
    form("pypi-", 24, Word),
    form("rubygems_", 24, Hexadecimal),
    form("oy2", 40, Word),
    form("CLOJARS_", 24, Word),
    form("cio", 30, Word),
    form("dckr_pat_", 20, Word),
    form("dckr_oat_", 20, Word),
    form("AKCp", 32, Word),
    form("cmVmdGtu", 24, Base64),
    // Models
    form("hf_", 24, Word),
    form("api_org_", 24, Word),
    form("sk-", 20, Word),
    form("r8_", 24, Word),
    form("gsk_", 24, Word),
    form("xai-", 24, Word),
    form("pplx-", 24, Word),
    form("fw_", 20, Word),
    // Payment and shops
    form("sk_live_", 16, Word),
    form("sk_test_", 16, Word),
    form("rk_live_", 16, Word),
    form("rk_test_", 16, Word),
    form("whsec_", 16, Base64),
    form("sq0csp-", 24, Word),
    form("sq0atp-", 16, Word),
    form("EAAA", 48, Word),
    form("shpat_", 24, Hexadecimal),
    form("shpss_", 24, Hexadecimal),
    form("shpca_", 24, Hexadecimal),
    form("shppa_", 24, Hexadecimal),
    form("access_token$production$", 24, Word),
    // Monitoring and mail
    form("glsa_", 24, Word),
    form("glc_", 24, Base64),
    form("SG.", 40, Base64),
    form("key-", 32, Hexadecimal),
    form("NRAK-", 20, Word),
    form("NRII-", 20, Word),
    form("NRJS-", 16, Hexadecimal),
    form("dt0c01.", 24, Base64),
    form("sntrys_", 24, Base64),
    form("sntryu_", 24, Hexadecimal),
    form("squ_", 32, Hexadecimal),
    form("sqp_", 32, Hexadecimal),
    form("sqa_", 32, Hexadecimal),
    form("xkeysib-", 32, Word),
    form("phc_", 24, Word),
    form("phx_", 24, Word),
    // Tools
    form("AGE-SECRET-KEY-1", 32, Capital),
    form("tskey-", 16, Word),
    form("pul-", 32, Hexadecimal),
    form("dp.pt.", 24, Word),
    form("dp.st.", 24, Base64),
    form("lin_api_", 24, Word),
    form("ntn_", 24, Word),
    form("secret_", 32, Word),
    form("figd_", 24, Word),
    form("PMAK-", 24, Word),
    form("nfp_", 24, Word),
    form("sbp_", 32, Hexadecimal),
    form("pscale_tkn_", 24, Word),
    form("pscale_pw_", 24, Word),
    form("napi_", 32, Word),
    form("tfp_", 32, Word),
    form("pnu_", 24, Word),
    form("rdme_", 32, Word),
    form("CFPAT-", 24, Word),
    form("ops_ey", 32, Base64),
    form("ico-", 24, Word),
    form("lip_", 24, Word),
    // JSON web tokens, and JSON in base64
    form("eyJ", 20, Base64),
];

impl Alphabet {
    fn contains(self, byte: u8) -> bool {
        match self {
            Word => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Base64 => byte.is_ascii_alphanumeric() || b"-_.+/=~".contains(&byte),
            Capital => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Hexadecimal => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        }
    }

    /// Returns whether a rest of a token is more than a word that starts like one.
    fn fits(self, rest: &str) -> bool {
        match self {
            Word | Base64 => looks_random(rest, 1) || rest.len() >= 64,
            Capital | Hexadecimal => rest.bytes().any(|byte| byte.is_ascii_digit()),
        }
    }
}

/// Adds the ranges of all tokens in `text`.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let is_start = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        if !is_start || !(bytes[at].is_ascii_alphanumeric() || bytes[at] == b'$') {
            at += 1;
            continue;
        }
        let end = token_end(text, at).or_else(|| form_without_prefix(text, at));
        if let Some(end) = end {
            found.push(at..end);
        }
        at = end.unwrap_or(at + 1);
    }
}

/// Returns the length of the run of bytes at `start` that are `allowed`.
fn run(text: &str, start: usize, allowed: impl Fn(u8) -> bool) -> usize {
    text.as_bytes()[start..].iter().take_while(|byte| allowed(**byte)).count()
}

/// Returns the length of the run, which is not followed further than any key is long.
fn short_run(text: &str, start: usize, allowed: impl Fn(u8) -> bool) -> usize {
    text.as_bytes()[start..].iter().take(LONGEST_KEY).take_while(|byte| allowed(**byte)).count()
}

/// Returns the forms whose prefix starts with this byte, in the order of the table. Every word of
/// every text is compared with them.
fn forms_with_first(first: u8) -> &'static [&'static TokenForm] {
    static BY_FIRST: LazyLock<Vec<Vec<&TokenForm>>> = LazyLock::new(|| {
        let mut by_first = vec![Vec::new(); 256];
        for form in FORMS {
            by_first[usize::from(form.prefix.as_bytes()[0])].push(form);
        }
        by_first
    });
    &BY_FIRST[usize::from(first)]
}

/// Returns the end of the token with a known prefix that starts at `start`.
fn token_end(text: &str, start: usize) -> Option<usize> {
    let here = &text[start..];
    forms_with_first(text.as_bytes()[start])
        .iter()
        .filter(|form| here.starts_with(form.prefix))
        .find_map(|form| {
            let rest = start + form.prefix.len();
            let length = run(text, rest, |byte| form.alphabet.contains(byte));
            let token = &text[rest..rest + length];
            (length >= form.rest && form.alphabet.fits(token)).then_some(rest + length)
        })
}

/// Returns the end of a secret without a prefix that starts at `start`, and whose form no other
/// text has.
fn form_without_prefix(text: &str, start: usize) -> Option<usize> {
    let here = &text[start..];
    if here.starts_with('$') {
        return crypt(text, start);
    }
    let length =
        short_run(text, start, |byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    let word = &here[..length];
    let next = text.as_bytes().get(start + length).copied().unwrap_or(b' ');
    let is_whole = !next.is_ascii_alphanumeric() && !b"-_.".contains(&next);
    // Secret keys of Amazon; account keys of Azure; a line of a key in base64.
    let is_key = match length {
        40 | 64 => is_dense(word) && word.matches('/').count() <= 5,
        88 => word.ends_with("==") && is_dense(word) && !has_digest_name(text, start),
        _ => false,
    };
    if is_key && is_whole {
        return Some(start + length);
    }
    telegram(text, start)
        .or_else(|| discord(text, start))
        .or_else(|| azure_client_secret(text, start))
        .or_else(|| twilio_or_mailchimp(text, start))
}

/// A password as crypt(3) stores it.
fn crypt(text: &str, start: usize) -> Option<usize> {
    let schemes = ["$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$7$", "$apr1$", "$argon2"];
    schemes.iter().find(|scheme| text[start..].starts_with(**scheme))?;
    let length =
        short_run(text, start, |byte| byte.is_ascii_alphanumeric() || b"$./+=,-".contains(&byte));
    (length >= 20).then_some(start + length)
}

/// Returns whether the name of a hash is before `start`, as in `sha512-…`.
fn has_digest_name(text: &str, start: usize) -> bool {
    ["sha512-", "sha512:", "sha384-"].iter().any(|name| text[..start].ends_with(name))
}

/// `123456789:` and 35 characters.
fn telegram(text: &str, start: usize) -> Option<usize> {
    let number = short_run(text, start, |byte| byte.is_ascii_digit());
    let rest = start + number + 1;
    if !(8..=10).contains(&number) || text.as_bytes().get(rest - 1) != Some(&b':') {
        return None;
    }
    let length = short_run(text, rest, |byte| Word.contains(byte));
    (length == 35 && is_dense(&text[rest..rest + length])).then_some(rest + length)
}

/// Three parts with dots, the second of 6 characters.
fn discord(text: &str, start: usize) -> Option<usize> {
    let first = short_run(text, start, |byte| Word.contains(byte));
    let second = start + first + 1;
    if !(23..=28).contains(&first) || text.as_bytes().get(second - 1) != Some(&b'.') {
        return None;
    }
    let third = second + short_run(text, second, |byte| Word.contains(byte)) + 1;
    if third - second != 7 || text.as_bytes().get(third - 1) != Some(&b'.') {
        return None;
    }
    let length = short_run(text, third, |byte| Word.contains(byte));
    (length >= 27 && is_dense(&text[start..start + first])).then_some(third + length)
}

/// Three characters, a digit and `Q~`.
fn azure_client_secret(text: &str, start: usize) -> Option<usize> {
    let here = text.as_bytes().get(start + 3..start + 6)?;
    if !here[0].is_ascii_digit() || &here[1..] != b"Q~" {
        return None;
    }
    let length = short_run(text, start + 6, |byte| Word.contains(byte) || b".~".contains(&byte));
    (length >= 24).then_some(start + 6 + length)
}

/// `SK` and 32 hexadecimal digits, or 32 of them and `-us1`.
fn twilio_or_mailchimp(text: &str, start: usize) -> Option<usize> {
    let digits = start + if text[start..].starts_with("SK") { 2 } else { 0 };
    let end = digits + short_run(text, digits, |byte| Hexadecimal.contains(byte));
    if end - digits != 32 {
        return None;
    }
    let behind = &text[end..];
    let next_is_word = behind.starts_with(|one: char| one.is_ascii_alphanumeric());
    if digits > start {
        return (!next_is_word).then_some(end);
    }
    let center = behind.strip_prefix("-us")?;
    let number = center.bytes().take_while(u8::is_ascii_digit).count();
    (number > 0).then_some(end + 3 + number)
}
