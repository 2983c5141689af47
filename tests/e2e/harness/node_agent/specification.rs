//! Converts a pod's specification to a container. A pod that a kubelet would refuse, or that is not
//! supported, is a [`Refusal`].

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use kube::ResourceExt;

use super::Shared;
use super::image::Image;
use super::toolkit::{self, DRIVER_VERSION};
use super::volumes::{self, Mount};

/// Why a container is not started: reason and message of its `waiting` state.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Refusal {
    /// The container cannot be made as the pod describes it.
    pub(super) fn configuration(message: impl Into<String>) -> Self {
        Self { reason: "CreateContainerConfigError", message: message.into() }
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self { reason: "RunContainerError", message: format!("{error:#}") }
    }
}

/// A container to run.
pub(super) struct Specification {
    pub(super) image: Image,
    pub(super) command: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    pub(super) mounts: Vec<Mount>,
    pub(super) user: i64,
    pub(super) group: i64,
}

impl Specification {
    /// Reads a pod's specification and prepares its volumes.
    pub(super) async fn of(shared: &Shared, pod: &Pod) -> Result<Self, Refusal> {
        let spec = pod.spec.as_ref().ok_or_else(|| Refusal::configuration("a pod without spec"))?;
        let [container] = spec.containers.as_slice() else {
            return Err(Refusal::configuration("this node agent runs pods with one container"));
        };
        if spec.init_containers.as_ref().is_some_and(|containers| !containers.is_empty()) {
            return Err(Refusal::configuration("this node agent runs no init containers"));
        }
        if spec.restart_policy.as_deref() != Some("Never") {
            return Err(Refusal::configuration(
                "this node agent restarts nothing: restartPolicy must be Never",
            ));
        }
        let reference = container.image.clone().unwrap_or_default();
        let image = shared.images.get(&shared.directory, &reference).await?;
        let (user, group) = user(pod, container, &image)?;
        let command = command(container, &image);
        let mut environment = vec![(
            "PATH".to_owned(),
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        )];
        environment.extend(image.environment.iter().cloned());
        environment.extend([
            ("HOSTNAME".to_owned(), pod.name_any()),
            ("KUBERNETES_SERVICE_HOST".to_owned(), "127.0.0.1".to_owned()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), shared.api_port.to_string()),
        ]);
        if toolkit::requests_gpus(container) {
            environment.push((DRIVER_VERSION.to_owned(), toolkit::driver(shared).await?));
        }
        for variable in container.env.iter().flatten() {
            environment.push((variable.name.clone(), expand(&value(pod, variable)?, &environment)));
        }
        if container.env_from.as_ref().is_some_and(|sources| !sources.is_empty()) {
            return Err(Refusal::configuration("this node agent knows no envFrom"));
        }
        let command = command.iter().map(|word| expand(word, &environment)).collect();
        let mounts = volumes::prepare(shared, pod, container).await?;
        Ok(Self { image, command, environment, mounts, user, group })
    }
}

/// Returns the command with its arguments. A command of the pod also replaces the arguments of the
/// image.
fn command(container: &Container, image: &Image) -> Vec<String> {
    let (command, arguments) = match (&container.command, &container.args) {
        (Some(command), arguments) => (command, arguments.as_deref().unwrap_or_default()),
        (None, Some(arguments)) => (&image.entrypoint, arguments.as_slice()),
        (None, None) => (&image.entrypoint, image.arguments.as_slice()),
    };
    [command.as_slice(), arguments].concat()
}

/// Returns user and group of the container, with the kubelet's check that it is not root.
fn user(pod: &Pod, container: &Container, image: &Image) -> Result<(i64, i64), Refusal> {
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let own = container.security_context.as_ref();
    let run_as_user = own
        .and_then(|context| context.run_as_user)
        .or(of_pod.and_then(|context| context.run_as_user));
    let run_as_group = own
        .and_then(|context| context.run_as_group)
        .or(of_pod.and_then(|context| context.run_as_group));
    let non_root = own
        .and_then(|context| context.run_as_non_root)
        .or(of_pod.and_then(|context| context.run_as_non_root));
    let user = run_as_user.unwrap_or(image.user);
    if non_root == Some(true) && user == 0 {
        return Err(Refusal::configuration(
            "container has runAsNonRoot and image will run as root",
        ));
    }
    Ok((user, run_as_group.unwrap_or(user)))
}

/// Replaces `$(NAME)` for known names, and keeps it for unknown ones, as Kubernetes does.
fn expand(text: &str, environment: &[(String, String)]) -> String {
    environment
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

/// The value of an environment variable.
fn value(pod: &Pod, variable: &EnvVar) -> Result<String, Refusal> {
    let Some(source) = &variable.value_from else {
        return Ok(variable.value.clone().unwrap_or_default());
    };
    let Some(field) = &source.field_ref else {
        return Err(Refusal::configuration(format!(
            "this node agent fills env {} from fields only",
            variable.name
        )));
    };
    field_value(pod, &field.field_path)
}

/// A field of the pod, as the downward API names it.
pub(super) fn field_value(pod: &Pod, path: &str) -> Result<String, Refusal> {
    let spec = pod.spec.as_ref();
    let keyed = |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
    let value = match path {
        "metadata.name" => Some(pod.name_any()),
        "metadata.namespace" => pod.namespace(),
        "metadata.uid" => pod.uid(),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()),
        "status.podIP" | "status.hostIP" => Some("127.0.0.1".to_owned()),
        _ => match (keyed("metadata.labels"), keyed("metadata.annotations")) {
            (Some(key), _) => Some(pod.labels().get(key).cloned().unwrap_or_default()),
            (_, Some(key)) => Some(pod.annotations().get(key).cloned().unwrap_or_default()),
            (None, None) => None,
        },
    };
    value.ok_or_else(|| Refusal::configuration(format!("unsupported pod field {path}")))
}
