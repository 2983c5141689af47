//! The Kubernetes client of the hook in its pod, and of a user at a workstation.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::{BoxError, Service, ServiceBuilder};

pub use kube::Client;

use super::call::{CallError, call};
use super::error_causes;

#[cfg(feature = "proxy")]
mod proxy;

/// The longest time that a connection takes to be opened, with name resolution and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is neither an in-cluster configuration nor a kubeconfig.
    #[error("cannot find out how to reach the API server")]
    Config(#[from] kube::config::InferConfigError),
    /// A kubeconfig cannot be read.
    #[error("cannot use the kubeconfig `{}`", path.display())]
    UnreadableKubeconfig {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kubeconfig does not have the selected context.
    #[error("the kubeconfig{} has no context `{context}`", in_backticks(path.as_deref()))]
    MissingContext {
        /// Its path, if the user named it.
        path: Option<PathBuf>,
        /// The name of the context.
        context: String,
    },
    /// The kubeconfig, or the selected context, cannot be used.
    #[error("cannot use the kubeconfig{}", in_backticks(path.as_deref()))]
    Kubeconfig {
        /// Its path, if the user named it.
        path: Option<PathBuf>,
        /// The reason.
        source: KubeconfigError,
    },
    /// The client could not be created.
    #[error("cannot create a Kubernetes client")]
    Client(#[from] kube::Error),
    /// The API server would be reached through a proxy of an unsupported kind.
    #[error(
        "cannot use the proxy `{0}`: the API server is reached through proxies with the address `http://…` or `socks5://…` only"
    )]
    Proxy(String),
}

impl ClientError {
    /// Returns a function that converts the error of a kubeconfig. `named`: the path that the user
    /// named.
    fn kubeconfig(named: Option<&Path>) -> impl Fn(KubeconfigError) -> Self {
        move |error| {
            if let KubeconfigError::ReadConfig(source, path) = error {
                Self::UnreadableKubeconfig { path, source }
            } else if let KubeconfigError::LoadContext(context) = error {
                // kube calls every selected context the current one.
                Self::MissingContext { path: named.map(Path::to_owned), context }
            } else {
                Self::Kubeconfig { path: named.map(Path::to_owned), source: error }
            }
        }
    }

    /// Returns the message, followed by those of its causes that it does not repeat.
    pub fn with_causes(&self) -> String {
        error_causes::with_causes(self)
    }
}

/// Returns a path in backticks, after a space.
fn in_backticks(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" `{}`", path.display()))
}

/// The cluster that a user selects, as with kubectl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLocation {
    /// The kubeconfig; `None`: `KUBECONFIG`, `~/.kube/config`, or inside a pod its ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; `None`: the current one.
    pub context: Option<String>,
    /// `NO_PROXY` of the environment: the servers that are reached without the proxy that
    /// `HTTPS_PROXY` names, separated by commas. kube reads `HTTPS_PROXY` itself.
    pub no_proxy: String,
}

/// Returns the client of a hook from the pod's ServiceAccount, or from a kubeconfig. A pod reaches
/// the API server of its cluster directly, so the proxies of its environment are not for that
/// server. Opens no connection.
///
/// # Errors
/// Neither exists, or the existing one cannot be used.
pub async fn connect() -> Result<Client, ClientError> {
    let mut config = Config::infer().await?;
    config.proxy_url = None;
    from_config(config)
}

/// Returns a client for the cluster that a user selects, and that cluster's address. Opens no
/// connection.
///
/// # Errors
/// There is no kubeconfig, it has no such context, or it cannot be used.
pub async fn connect_to(cluster: &ClusterLocation) -> Result<(Client, String), ClientError> {
    let options =
        KubeConfigOptions { context: cluster.context.clone(), ..KubeConfigOptions::default() };
    let unusable = ClientError::kubeconfig(cluster.kubeconfig.as_deref());
    let (config, kubeconfig) = if let Some(path) = &cluster.kubeconfig {
        let kubeconfig = Kubeconfig::read_from(path).map_err(&unusable)?;
        let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
        (config.map_err(&unusable)?, Some(kubeconfig))
    } else {
        let config = if cluster.context.is_some() {
            Config::from_kubeconfig(&options).await.map_err(&unusable)?
        } else {
            Config::infer().await?
        };
        // Without a kubeconfig, the configuration is that of a pod.
        (config, Kubeconfig::read().ok())
    };
    let address = config.cluster_url.to_string();
    let own_proxy = kubeconfig.is_some_and(|file| names_proxy(&file, cluster.context.as_deref()));
    // Nothing excludes a server from the proxy of its kubeconfig.
    let client = client(config, (!own_proxy).then_some(cluster.no_proxy.as_str()))?;
    Ok((client, address))
}

/// Returns whether a kubeconfig names a proxy for the cluster of a context.
fn names_proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> bool {
    let name = context.or(kubeconfig.current_context.as_deref());
    let contexts = kubeconfig.contexts.iter().filter(|context| Some(&*context.name) == name);
    let names: Vec<&str> = contexts
        .filter_map(|context| context.context.as_ref())
        .map(|context| context.cluster.as_str())
        .collect();
    let clusters = kubeconfig.clusters.iter().filter(|cluster| names.contains(&&*cluster.name));
    clusters
        .filter_map(|cluster| cluster.cluster.as_ref()?.proxy_url.as_ref())
        .any(|url| !url.is_empty())
}

/// Returns a client from a configuration, through the proxy that it names, unless `no_proxy`
/// excludes the server.
#[cfg(feature = "proxy")]
fn client(mut config: Config, no_proxy: Option<&str>) -> Result<Client, ClientError> {
    let named = config.proxy_url.take();
    let named = named.map(|named| proxy::between(&named, &config.cluster_url, no_proxy));
    match named.transpose()?.flatten() {
        Some(proxy) => proxy::client(config, &proxy),
        None => from_config(config),
    }
}

/// Returns a client from a configuration. If it names a proxy, kube returns an error: this build
/// supports none.
#[cfg(not(feature = "proxy"))]
fn client(config: Config, _no_proxy: Option<&str>) -> Result<Client, ClientError> {
    if config.proxy_url.is_some() {
        return Ok(Client::try_from(config)?);
    }
    from_config(config)
}

/// Returns a client from a configuration, without the proxy that it may name. Opens no connection.
///
/// # Errors
/// The configuration cannot be used.
pub fn from_config(config: Config) -> Result<Client, ClientError> {
    through(config, tcp_connector())
}

/// Returns a connector that opens TCP connections.
fn tcp_connector() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    // It also serves TLS, which another connector adds.
    tcp.enforce_http(false);
    // kube's connector does not do this. Without it, the first request of each connection waits for
    // the acknowledgment of the TLS handshake, which Linux delays by 40 ms; each watch has a
    // connection of its own.
    tcp.set_nodelay(true);
    tcp
}

/// Returns a client that connects through a connector. It has no retries: the loop does them, and
/// paces them. kube's own retries would hide minutes inside one call.
fn through<C>(config: Config, connector: C) -> Result<Client, ClientError>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(|request: Request<Body>| {
            tracing::debug!(method = %request.method(), uri = %request.uri(), "request");
            request
        })
        .map_response(|response: Response<Incoming>| {
            tracing::debug!(status = response.status().as_u16(), "answer");
            response
        })
        .map_err(|error| {
            let error = BoxError::from(error);
            tracing::debug!(error = &*error, "no answer");
            error
        })
        .service(client);
    Ok(Client::new(service, config.default_namespace))
}

/// The API group of OpenShift's security context constraints, which determine a pod's user there.
const OPENSHIFT_GROUP: &str = "security.openshift.io";

/// Returns whether the cluster is OpenShift, by its API groups. Every authenticated user may ask
/// (`system:discovery`).
///
/// # Errors
/// The call failed.
pub async fn is_openshift(client: &Client) -> Result<bool, CallError> {
    let served = call(client.list_api_groups()).await?;
    Ok(served.groups.iter().any(|group| group.name == OPENSHIFT_GROUP))
}

/// Returns the server's version as `major.minor`. Every authenticated user may ask
/// (`system:public-info-viewer`).
///
/// # Errors
/// The call failed.
pub async fn server_version(client: &Client) -> Result<String, CallError> {
    let info = call(client.apiserver_version()).await?;
    // Some vendors write `33+`.
    Ok(format!(
        "{}.{}",
        info.major,
        info.minor.trim_end_matches(|character: char| !character.is_ascii_digit())
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn message(kubeconfig: &Path) -> String {
        let place = ClusterLocation {
            kubeconfig: Some(kubeconfig.to_owned()),
            ..ClusterLocation::default()
        };
        connect_to(&place).await.map(drop).expect_err("no kubeconfig").with_causes()
    }

    #[tokio::test]
    async fn unusable_kubeconfig_is_named_once() {
        assert_eq!(
            message(Path::new("nosuch")).await,
            "cannot use the kubeconfig `nosuch`: No such file or directory (os error 2)"
        );
        // A file that every package has, and that is not a kubeconfig.
        let other = message(Path::new("Cargo.toml")).await;
        assert!(other.starts_with("cannot use the kubeconfig `Cargo.toml`: failed to "), "{other}");
    }

    #[tokio::test]
    async fn connections_do_not_delay_small_writes() {
        let server = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = format!("http://{}", server.local_addr().unwrap());
        let connection = tcp_connector().call(address.parse().unwrap()).await.unwrap();
        assert!(connection.inner().nodelay().unwrap());
    }

    #[test]
    fn missing_context_is_not_called_current() {
        for (kubeconfig, expected) in [
            (Some("kc"), "the kubeconfig `kc` has no context `nope`"),
            (None, "the kubeconfig has no context `nope`"),
        ] {
            let unusable = ClientError::kubeconfig(kubeconfig.map(Path::new));
            let error = unusable(KubeconfigError::LoadContext("nope".to_owned()));
            assert_eq!(error.with_causes(), expected);
        }
    }
}
