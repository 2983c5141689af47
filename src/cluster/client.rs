//! The Kubernetes client of the hook.

use std::time::Duration;

use kube::{Client, Config};

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Neither in a cluster nor a kubeconfig.
    #[error("unable to find out how to reach the API server")]
    Config(#[from] kube::config::InferConfigError),
    /// The client could not be made.
    #[error("unable to make a Kubernetes client")]
    Client(#[from] kube::Error),
}

/// A client from the pod's ServiceAccount, or from a kubeconfig. Opens no connection.
///
/// # Errors
/// Neither is there, or what is there cannot be used.
pub async fn connect() -> Result<Client, ClientError> {
    from_config(Config::infer().await?)
}

/// A client from what is known of the server. Opens no connection.
///
/// # Errors
/// It cannot be used.
pub fn from_config(mut config: Config) -> Result<Client, ClientError> {
    // Retries belong to the loop, which sees them and paces them; kube's own would hide minutes inside one call.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(10));
    Ok(Client::try_from(config)?)
}
