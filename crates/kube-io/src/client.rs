//! The Kubernetes client of the hook in its pod, and of a user at a workstation.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

pub use kube::Client;

use super::call::{CallError, call};

#[cfg(feature = "proxy")]
mod proxy;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is neither an in-cluster configuration nor a kubeconfig.
    #[error("cannot find out how to reach the API server")]
    Config(#[from] kube::config::InferConfigError),
    /// The kubeconfig, or the selected context, cannot be used.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
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
    /// Returns the message followed by those of its causes, from the outermost to the innermost.
    pub fn with_causes(&self) -> String {
        let causes = std::iter::successors(self.source(), |cause: &&(dyn Error + 'static)| {
            (*cause).source()
        });
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

/// The cluster that a user selects, as with kubectl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterLocation {
    /// The kubeconfig; `None`: `KUBECONFIG`, `~/.kube/config`, or inside a pod its ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; `None`: the current one.
    pub context: Option<String>,
    /// The proxies of the environment.
    pub proxies: ProxyVariables,
}

/// The environment variables about proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyVariables {
    /// `HTTPS_PROXY`, which kube reads too.
    pub https_proxy: Option<String>,
    /// `NO_PROXY`: the servers that are reached directly, separated by commas.
    pub no_proxy: Option<String>,
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
    let config = match cluster {
        ClusterLocation { kubeconfig: None, context: None, .. } => Config::infer().await?,
        ClusterLocation { kubeconfig, context, .. } => {
            let options =
                KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
            match kubeconfig {
                Some(path) => {
                    Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?
                }
                None => Config::from_kubeconfig(&options).await?,
            }
        }
    };
    let address = config.cluster_url.to_string();
    Ok((client(config, &cluster.proxies)?, address))
}

/// Returns a client from a configuration, through the proxy that it names.
#[cfg(feature = "proxy")]
fn client(mut config: Config, variables: &ProxyVariables) -> Result<Client, ClientError> {
    let named = config.proxy_url.take();
    let named = named.map(|named| proxy::between(&named, &config.cluster_url, variables));
    match named.transpose()?.flatten() {
        Some(proxy) => proxy::client(with_limits(config), &proxy),
        None => from_config(config),
    }
}

/// Returns a client from a configuration. With a proxy, kube says that it cannot use it.
#[cfg(not(feature = "proxy"))]
fn client(config: Config, _variables: &ProxyVariables) -> Result<Client, ClientError> {
    from_config(config)
}

/// Returns a client from a configuration. Opens no connection.
///
/// # Errors
/// The configuration cannot be used.
pub fn from_config(config: Config) -> Result<Client, ClientError> {
    Ok(Client::try_from(with_limits(config))?)
}

fn with_limits(mut config: Config) -> Config {
    // The loop does the retries, and paces them. kube's own retries would hide minutes inside one
    // call.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    config
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
