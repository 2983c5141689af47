//! Clients that reach the API server through a proxy. kube's own feature is not used: it compares
//! `NO_PROXY` with the address of the proxy instead of the server's (kube-client 5.0), and fails on
//! an empty entry.

use http::Uri;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::{Client, Config};

use super::{ClientError, tcp_connector, through};

/// Returns the proxy between this client and the API server. `proxy` is the one that the kubeconfig
/// or the environment names. `no_proxy` has the servers that are excluded from a proxy of the
/// environment, which a local server does not need either; `None`: it is the kubeconfig's.
///
/// # Errors
/// The proxy cannot be used.
pub(super) fn between(
    proxy: &Uri,
    server: &Uri,
    no_proxy: Option<&str>,
) -> Result<Option<Intercept>, ClientError> {
    let excluded = no_proxy.map(|no_proxy| excluded_hosts(no_proxy, port(server)));
    let is_excluded = excluded.as_ref().is_some_and(|hosts| {
        is_local(server)
            || hosts.contains(&"*")
            || Matcher::builder()
                .all("http://any.invalid")
                .no(hosts.join(","))
                .build()
                .intercept(server)
                .is_none()
    });
    if is_excluded {
        return Ok(None);
    }
    let found = Matcher::builder().all(proxy.to_string()).build().intercept(server);
    match found.filter(|found| is_supported(found.uri())) {
        Some(found) => Ok(Some(found)),
        None => Err(ClientError::Proxy(without_password(proxy))),
    }
}

fn is_supported(proxy: &Uri) -> bool {
    matches!(proxy.scheme_str(), Some("http" | "socks5" | "socks5h"))
}

/// Returns the address of a proxy for messages.
fn without_password(proxy: &Uri) -> String {
    let authority = proxy.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    proxy.scheme_str().map_or_else(|| place.to_owned(), |scheme| format!("{scheme}://{place}"))
}

fn port(server: &Uri) -> u16 {
    let usual = if server.scheme_str() == Some("http") { 80 } else { 443 };
    server.port_u16().unwrap_or(usual)
}

/// Returns whether the server is on this machine, as Go's HTTP client decides it.
fn is_local(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns the entries of `NO_PROXY` in the form of [`Matcher`], which knows neither ports nor
/// `*.example.com`.
fn excluded_hosts(no_proxy: &str, port: u16) -> Vec<&str> {
    let hosts = no_proxy.split(',').map(str::trim).filter_map(|entry| {
        let (host, only) = split_port(entry);
        let domain = host.strip_prefix('*').filter(|domain| domain.starts_with('.'));
        only.is_none_or(|only| only == port).then_some(domain.unwrap_or(host))
    });
    hosts.collect()
}

/// Splits the port from an entry. An IPv6 address or network without brackets has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    let Some((host, port)) = entry.rsplit_once(':') else { return (entry, None) };
    if host.contains(':') && !host.ends_with(']') {
        return (entry, None);
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    port.parse().map_or((entry, None), |port| (host, Some(port)))
}

/// Returns a client that connects through a proxy of [`between`]. Opens no connection.
///
/// # Errors
/// The configuration cannot be used.
pub(super) fn client(config: Config, proxy: &Intercept) -> Result<Client, ClientError> {
    let tcp = tcp_connector();
    let address = proxy.uri().clone();
    if address.scheme_str() == Some("http") {
        let tunnel = Tunnel::new(address, tcp);
        return through(
            config,
            match proxy.basic_auth() {
                Some(password) => tunnel.with_auth(password.clone()),
                None => tunnel,
            },
        );
    }
    let socks = SocksV5::new(with_socks_port(address), tcp);
    through(
        config,
        match proxy.raw_auth() {
            Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
            None => socks,
        },
    )
}

/// Returns the address with the usual port of SOCKS if it has none: hyper would connect to port 80.
fn with_socks_port(address: Uri) -> Uri {
    if address.port().is_some() {
        return address;
    }
    let text = format!("{}:1080", address.to_string().trim_end_matches('/'));
    text.parse().unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    /// Returns the address of the proxy to a server, with these variables.
    fn proxy(server: &str, no_proxy: &str) -> Option<String> {
        let found =
            between(&uri("http://proxy.example:3128"), &uri(server), Some(no_proxy)).unwrap();
        found.map(|found| found.uri().to_string())
    }

    #[test]
    fn no_proxy_excludes_servers_as_with_kubectl() {
        for (server, no_proxy, direct) in [
            ("https://api.corp.example:6443", "", false),
            ("https://api.corp.example:6443", "other.example", false),
            ("https://api.corp.example:6443", "api.corp.example", true),
            ("https://api.corp.example:6443", "corp.example", true),
            ("https://api.corp.example:6443", ".corp.example", true),
            ("https://api.corp.example:6443", "*.corp.example", true),
            ("https://api.corp.example:6443", "pi.corp.example", false),
            ("https://api.corp.example:6443", " localhost, ,corp.example,", true),
            ("https://api.corp.example:6443", "api.corp.example:6443", true),
            ("https://api.corp.example:6443", "api.corp.example:443", false),
            ("https://api.corp.example", "api.corp.example:443", true),
            ("https://api.corp.example:6443", "*", true),
            ("https://api.corp.example:6443", "*.other.example", false),
            ("https://10.1.2.3:6443", "*", true),
            ("https://[fd00::1]:6443", "other.example, *", true),
            ("https://10.1.2.3:6443", "10.1.2.3", true),
            ("https://10.1.2.3:6443", "10.1.2.3:6443", true),
            ("https://10.1.2.3:6443", "10.0.0.0/8", true),
            ("https://10.1.2.3:6443", "10.2.0.0/16", false),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "fd01::/16", false),
            ("https://127.0.0.1:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("https://localhost:6443", "", true),
        ] {
            let expected = (!direct).then(|| "http://proxy.example:3128/".to_owned());
            assert_eq!(proxy(server, no_proxy), expected, "{server} NO_PROXY={no_proxy}");
        }
    }

    #[test]
    fn proxy_of_the_kubeconfig_has_no_exclusions() {
        let (proxy, server) = (uri("socks5://127.0.0.1:1080"), uri("https://127.0.0.1:6443"));
        assert!(between(&proxy, &server, None).unwrap().is_some());
        assert!(between(&proxy, &server, Some("")).unwrap().is_none());
    }

    #[test]
    fn socks_proxy_without_port_has_its_usual_one() {
        for (address, expected) in [
            ("socks5://proxy.example", "socks5://proxy.example:1080/"),
            ("socks5h://[fd00::1]", "socks5h://[fd00::1]:1080/"),
            ("socks5://proxy.example:99", "socks5://proxy.example:99/"),
        ] {
            assert_eq!(with_socks_port(uri(address)).to_string(), expected);
        }
    }

    #[test]
    fn unsupported_proxy_is_named_without_password() {
        for (proxy, named) in [
            ("https://user:word@proxy.example:3128", "https://proxy.example:3128"),
            ("ftp://proxy.example", "ftp://proxy.example"),
        ] {
            let error = between(&uri(proxy), &uri("https://api:6443"), Some("")).unwrap_err();
            assert!(matches!(&error, ClientError::Proxy(found) if found == named), "{error}");
        }
    }

    #[test]
    fn unsupported_proxy_does_not_matter_for_excluded_servers() {
        let proxy = uri("https://proxy.example:3128");
        for (server, no_proxy) in
            [("https://127.0.0.1:6443", ""), ("https://api.corp.example", "corp.example")]
        {
            assert!(between(&proxy, &uri(server), Some(no_proxy)).unwrap().is_none(), "{server}");
        }
    }
}
