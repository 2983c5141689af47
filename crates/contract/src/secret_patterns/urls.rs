//! Secrets in addresses: users and passwords, and the paths of webhooks.

use std::ops::Range;

use super::random::{is_dense, is_uuid, looks_random};
use super::{window, window_before};

/// Hosts that accept messages from everyone who knows the path.
const WEBHOOK_HOSTS: [&str; 8] = [
    "hooks.slack.com",
    "hooks.zapier.com",
    "hook.eu1.make.com",
    "webhook.office.com",
    "outlook.office.com",
    "api.telegram.org",
    "maker.ifttt.com",
    "hc-ping.com",
];
/// Parts of a path after which the secret of a webhook follows.
const WEBHOOK_PARTS: [&str; 9] = [
    "webhook",
    "webhooks",
    "webhookb2",
    "hook",
    "hooks",
    "services",
    "incomingwebhook",
    "trigger",
    "integration",
];
/// The shortest user without a password that may be a token.
const SHORTEST_USER: usize = 8;
/// The longest address, in bytes.
const LONGEST_ADDRESS: usize = 1024;
/// The longest user with its password, in bytes.
const LONGEST_USER: usize = 256;

/// Adds the ranges of all secrets in addresses.
pub(super) fn find(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, separator) in text.match_indices("://") {
        let start = at + separator.len();
        let is_end = |one: char| one.is_whitespace() || "\"'`<>\\{}|,;".contains(one);
        let address = window(text, start, LONGEST_ADDRESS);
        let end = start + address.find(is_end).unwrap_or(address.len());
        let scheme = window_before(text, at, 16)
            .rsplit(|one: char| !one.is_ascii_alphanumeric() && one != '+');
        let scheme = scheme.into_iter().next().unwrap_or_default();
        let authority = userinfo(text, scheme, start..end, found);
        webhook(text, authority..end, found);
    }
    database_names(text, found);
}

/// Adds user and password, and returns where the host starts.
fn userinfo(
    text: &str,
    scheme: &str,
    address: Range<usize>,
    found: &mut Vec<Range<usize>>,
) -> usize {
    let whole = &text[address.clone()];
    let authority = &whole[..whole.find(['/', '?', '#']).unwrap_or(whole.len())];
    let at = authority.rfind('@').or_else(|| {
        // A password with a slash, which is not an address but works in some programs.
        let (_, port) = authority.rsplit_once(':')?;
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        whole.rfind('@').filter(|_| !is_port)
    });
    let Some(at) = at else { return address.start };
    let user = &whole[..at];
    match user.split_once(':') {
        Some((name, password)) => {
            if !password.is_empty() {
                // A token may be the user, with `x-oauth-basic` as password.
                let from = if looks_random(name, SHORTEST_USER) { 0 } else { name.len() + 1 };
                found.push(address.start + from..address.start + at);
            }
        }
        None if user.len() >= SHORTEST_USER && !matches!(scheme, "ssh" | "git" | "mailto") => {
            found.push(address.start..address.start + at);
        }
        None => {}
    }
    address.start + at + 1
}

/// Adds the secret parts of the path of a webhook. Webhooks inside a cluster have none: their paths
/// are words.
fn webhook(text: &str, address: Range<usize>, found: &mut Vec<Range<usize>>) {
    let whole = &text[address.clone()];
    let path_at = whole.find('/').unwrap_or(whole.len());
    let (host, path) = whole.split_at(path_at);
    let is_known = WEBHOOK_HOSTS.iter().any(|known| host == *known || host.ends_with(known));
    let path = &path[..path.find('?').unwrap_or(path.len())];
    let mut is_after = is_known;
    let mut at = address.start + path_at;
    for part in path.split('/') {
        let is_secret = part.len() >= 8 && (is_known || looks_random(part, 16))
            || part.len() >= 16 && is_dense(part)
            || is_uuid(part);
        if is_after && is_secret && !WEBHOOK_PARTS.contains(&part) {
            found.push(at..at + part.len());
        }
        is_after |= WEBHOOK_PARTS.contains(&part) || part.starts_with("bot");
        at += part.len() + 1;
    }
}

/// Adds the passwords in names of data sources without a scheme: `user:password@tcp(host:3306)/db`,
/// `user:password@host:5432/db`.
fn database_names(text: &str, found: &mut Vec<Range<usize>>) {
    for (at, _) in text.match_indices('@') {
        let is_outside = |one: char| one.is_whitespace() || "\"'`<>=,;(){}[]/".contains(one);
        let before = window_before(text, at, LONGEST_USER);
        let source = before.rsplit(is_outside).next().unwrap_or(before);
        let Some((user, password)) = source.split_once(':') else { continue };
        let host = window(text, at + 1, LONGEST_USER);
        let end = host.find(|one: char| !one.is_ascii_alphanumeric() && !".-_".contains(one));
        let follows = end.and_then(|end| host[end..].chars().next());
        let is_digest = host.starts_with("sha256:") || host.starts_with("sha512:");
        let is_source = matches!(follows, Some(':' | '/' | '(')) && end != Some(0) && !is_digest;
        if is_source && !user.is_empty() && password.len() >= 4 && !password.contains(':') {
            found.push(at - password.len()..at);
        }
    }
}
