//! Names shared with Kubernetes, NVIDIA's operators and the hook chart. Sources are next to each
//! group.

/// gpu-rollout's prefix for labels, annotations and field managers.
pub const PREFIX: &str = "gpu-rollout.dev";
/// Field manager of every write of the hook.
pub const FIELD_MANAGER: &str = "gpu-rollout";
/// The one Lease that all hook Jobs of a cluster share …
pub const LEASE_NAME: &str = "gpu-rollout";
/// … and its namespace: `default` always exists, and contains the events about nodes too.
pub const LEASE_NAMESPACE: &str = "default";
/// `app.kubernetes.io/name` of all objects of the hook chart.
pub const PROGRAM: &str = "gpu-rollout";
/// The label with the first characters of the trigger digest, on the trigger ConfigMap and on the
/// Job's pods.
pub const DIGEST_LABEL: &str = "gpu-rollout.dev/digest";
/// The ConfigMap with the pauses ([`super::pause`]), in the Lease's namespace. No chart contains
/// it.
pub const PAUSE_NAME: &str = "gpu-rollout-pause";
/// The right by which the chart's admission policies recognize hooks of other releases, and
/// identities that may install them: in RBAC, a right can be granted only by an identity that has
/// it. It is about a resource that does not exist, in the Lease's namespace.
pub const COORDINATION: VirtualRight =
    VirtualRight { group: PREFIX, resource: "rollouts", verb: "coordinate" };

/// A right about a resource that no API server serves.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct VirtualRight {
    /// API group.
    pub group: &'static str,
    /// Resource in the plural.
    pub resource: &'static str,
    /// Verb.
    pub verb: &'static str,
}

/// The taint that Kubernetes' node controller sets on cordoned nodes.
pub const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
/// Environment variable of the hook Job with [`crate::settings::Settings`] as JSON.
pub const SETTINGS_ENV: &str = "GPU_ROLLOUT_SETTINGS";
/// Environment variable with the port at which the hook serves its metrics.
pub const METRICS_ENV: &str = "GPU_ROLLOUT_METRICS_PORT";
/// Where the kubelet reads the termination message (the Kubernetes default).
pub const TERMINATION_LOG: &str = "/dev/termination-log";

/// Set by gpu-operator on every node with an NVIDIA GPU (gpu-operator
/// `controllers/state_manager.go`).
pub const GPU_PRESENT_LABEL: &str = "nvidia.com/gpu.present";
/// Prefix of all labels by which the operator places its operands.
pub const DEPLOY_LABEL_PREFIX: &str = "nvidia.com/gpu.deploy.";
/// The NVIDIADriver that a node belongs to (gpu-operator v26.7 and later).
pub const DRIVER_OWNER_LABEL: &str = "nvidia.com/gpu-operator.driver.owner";
/// The kind of the custom resource that specifies the driver of a pool of nodes.
pub const NVIDIA_DRIVER_KIND: &str = "NVIDIADriver";
/// The NVIDIADriver that the GPU Operator's chart creates
/// (`driver.nvidiaDriverCRD.deployDefaultCR`).
pub const DEFAULT_NVIDIA_DRIVER: &str = "default";
/// The container of a driver pod that installs the driver; others (peermem, fs, gdrcopy) have
/// versions of their own.
pub const DRIVER_CONTAINER: &str = "nvidia-driver-ctr";
/// The driver DaemonSet's node selector.
pub const DEPLOY_DRIVER_LABEL: &str = "nvidia.com/gpu.deploy.driver";
/// The container toolkit DaemonSet's node selector.
pub const DEPLOY_TOOLKIT_LABEL: &str = "nvidia.com/gpu.deploy.container-toolkit";
/// The validator DaemonSet's node selector.
pub const DEPLOY_VALIDATOR_LABEL: &str = "nvidia.com/gpu.deploy.operator-validator";
/// `false`: the user keeps all operands off the node.
pub const DEPLOY_OPERANDS_LABEL: &str = "nvidia.com/gpu.deploy.operands";
/// The purpose of a node's GPUs (`container`, `vm-passthrough`, `vm-vgpu`): only `container` nodes
/// get the driver DaemonSet.
pub const WORKLOAD_CONFIG_LABEL: &str = "nvidia.com/gpu.workload.config";
/// State of a node in NVIDIA's driver upgrade (k8s-operator-libs `pkg/upgrade/consts.go`).
pub const UPGRADE_STATE_LABEL: &str = "nvidia.com/gpu-driver-upgrade-state";
/// A request of the user (or of gpu-rollout) to exclude a node from upgrades.
pub const UPGRADE_SKIP_LABEL: &str = "nvidia.com/gpu-driver-upgrade.skip";
/// NVIDIA's controller never drains pods with this label.
pub const DRAIN_SKIP_LABEL: &str = "nvidia.com/gpu-driver-upgrade-drain.skip";
/// [`UPGRADE_STATE_LABEL`] of the Network Operator.
pub const OFED_UPGRADE_STATE_LABEL: &str = "nvidia.com/ofed-driver-upgrade-state";
/// [`UPGRADE_SKIP_LABEL`] of the Network Operator.
pub const OFED_UPGRADE_SKIP_LABEL: &str = "nvidia.com/ofed-driver-upgrade.skip";
/// [`DRAIN_SKIP_LABEL`] of the Network Operator.
pub const OFED_DRAIN_SKIP_LABEL: &str = "nvidia.com/ofed-driver-upgrade-drain.skip";
/// Prefix of all labels of node-feature-discovery.
pub const NFD_LABEL_PREFIX: &str = "feature.node.kubernetes.io/";

/// The label that all driver DaemonSets and pods have, independent of their `app` (ClusterPolicy
/// and NVIDIADriver mode).
pub const DRIVER_COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "nvidia-driver");
/// The label of driver DaemonSets and pods on OpenShift that use the driver toolkit, with the value
/// `true`.
pub const DRIVER_TOOLKIT_LABEL: &str = "openshift.driver-toolkit";
/// The recipe component whose chart contains the GPU driver's upgrade policy.
pub const GPU_OPERATOR: &str = "gpu-operator";
/// The recipe component that installs the OFED driver.
pub const NETWORK_OPERATOR: &str = "network-operator";
/// The recipe component that installs the DRA driver, under any chart name.
pub const DRA_DRIVER: &str = "nvidia-dra-driver-gpu";
/// Node annotation: the GPU Operator's upgrade controller evicts, and driver-manager does not
/// (`true`, or absent).
pub const UPGRADE_ENABLED_ANNOTATION: &str = "nvidia.com/gpu-driver-upgrade-enabled";
/// `app` of the container toolkit.
pub const TOOLKIT_APP: (&str, &str) = ("app", "nvidia-container-toolkit-daemonset");
/// `app` of the operator's validator.
pub const VALIDATOR_APP: (&str, &str) = ("app", "nvidia-operator-validator");
/// The operator's Deployment: a literal in the chart, for any release name.
pub const OPERATOR_DEPLOYMENT: &str = "gpu-operator";
/// The Lease by which gpu-operator elects its leader, in its own namespace
/// (`cmd/gpu-operator/main.go`, `LeaderElectionID`; the same in every release since v25.10,
/// installed by Helm or OLM).
pub const OPERATOR_LEASE: &str = "53822513.nvidia.com";
/// Annotation on gpu-operator's DaemonSets that changes when the operator renders them differently
/// (`controllers/object_controls.go`).
pub const LAST_APPLIED_HASH_ANNOTATION: &str = "nvidia.com/last-applied-hash";
/// Part of the value of a `nvidia.com/gpu.deploy.*` label while driver-manager or mig-manager keeps
/// the operand off the node.
pub const DEPLOY_PAUSED: &str = "paused-for-";
/// The state of mig-manager on the node: `pending`, `rebooting`, `success` or `failed`.
pub const MIG_CONFIG_STATE_LABEL: &str = "nvidia.com/mig.config.state";
/// The label of GPU feature discovery with the way in which the GPUs of a node are shared …
pub const GPU_SHARING_LABEL: &str = "nvidia.com/gpu.sharing-strategy";
/// … and its value if MPS shares them.
pub const MPS_SHARING: &str = "mps";
/// Node labels that decide how many GPUs a node offers: MIG layout and sharing.
pub const GPU_SHAPE_LABELS: [&str; 5] = [
    "nvidia.com/mig.config",
    DEVICE_PLUGIN_CONFIG_LABEL,
    "nvidia.com/gpu.replicas",
    GPU_SHARING_LABEL,
    "nvidia.com/mig.strategy",
];
/// Prefixes of the extended resources that are GPUs (the operator's validator uses the same,
/// `cmd/nvidia-validator/main.go`).
pub const GPU_RESOURCE_PREFIXES: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/mig-"];
/// The label with which charts mark their objects with chart name and version: `<name>-<version>`,
/// with `_` for `+` and at most 63 characters (Helm's chart conventions; NVIDIA's charts of the
/// operators and the DRA driver set it).
pub const CHART_LABEL: &str = "helm.sh/chart";
/// The operator's own ClusterPolicy: a literal in the chart.
pub const CLUSTER_POLICY: &str = "cluster-policy";

/// The Network Operator's Deployment in a release called `network-operator`, as the bundles call it
/// (its chart's `fullname`).
pub const NETWORK_OPERATOR_DEPLOYMENT: &str = "network-operator";
/// The only NicClusterPolicy that the Network Operator reconciles.
pub const NIC_CLUSTER_POLICY: &str = "nic-cluster-policy";
/// The label that all OFED driver DaemonSets and pods have, with an empty value (network-operator
/// v1.3.0 and later).
pub const OFED_DRIVER_LABEL: &str = "nvidia.com/ofed-driver";
/// The owner of an OFED driver DaemonSet: [`OFED_OWNER_POLICY`], or `nnp-<name>` of a NicNodePolicy
/// (network-operator 26.4 and later).
pub const OFED_OWNER_LABEL: &str = "ds-owner";
/// Value of [`OFED_OWNER_LABEL`] for DaemonSets of the NicClusterPolicy.
pub const OFED_OWNER_POLICY: &str = "NicClusterPolicy";
/// The container of an OFED driver pod that installs the driver.
pub const OFED_CONTAINER: &str = "mofed-container";
/// Label of node-feature-discovery by which the Network Operator recognizes a node with one of its
/// NICs (vendor 15b3).
pub const NIC_PRESENT_LABEL: &str = "feature.node.kubernetes.io/pci-15b3.present";

/// Node label that chooses a node's device plugin configuration (k8s-device-plugin
/// `cmd/config-manager`).
pub const DEVICE_PLUGIN_CONFIG_LABEL: &str = "nvidia.com/device-plugin.config";
/// The containers by which the hook recognizes device plugin, GPU feature discovery and MPS control
/// daemon: names from the GPU Operator's pods and from the stand-alone chart.
pub const DEVICE_PLUGIN_CONTAINERS: [&str; 5] = [
    "nvidia-device-plugin",
    "nvidia-device-plugin-ctr",
    "gpu-feature-discovery",
    "gpu-feature-discovery-ctr",
    "mps-control-daemon-ctr",
];

/// Helm keeps an object with this annotation when its chart no longer renders it, or when its
/// release is removed.
pub const HELM_POLICY_ANNOTATION: (&str, &str) = ("helm.sh/resource-policy", "keep");
/// Argo CD's sync options of one object, separated by commas …
pub const ARGO_OPTIONS_ANNOTATION: &str = "argocd.argoproj.io/sync-options";
/// … the option that prevents pruning …
pub const ARGO_NO_PRUNE: &str = "Prune=false";
/// … and all options that bundles set on objects that must stay: too large for the annotation of
/// client-side apply, or shared with others.
pub const ARGO_KEPT: &str = "Prune=false,Delete=false,ServerSideApply=true";
/// Argo CD's options for comparing one object, separated by commas …
pub const ARGO_COMPARE_ANNOTATION: &str = "argocd.argoproj.io/compare-options";
/// … and the option with which an object that its Application no longer contains does not make that
/// Application `OutOfSync`. Otherwise the Application never becomes healthy, and the next wave,
/// which contains the object's new Application, never starts.
pub const ARGO_IGNORE_EXTRANEOUS: &str = "IgnoreExtraneous";
/// The annotation with which Argo CD tracks the objects of its Applications, unless it is
/// configured to use [`HELM_INSTANCE_LABEL`] (`application.resourceTrackingMethod`).
pub const ARGO_TRACKING_ANNOTATION: &str = "argocd.argoproj.io/tracking-id";
/// … or this label, which its documentation proposes for tracking (`application.instanceLabelKey`).
pub const ARGO_INSTANCE_LABEL: &str = "argocd.argoproj.io/instance";
/// The label and value with which Helm marks the objects that it manages.
pub const HELM_MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "Helm");

/// The label with which charts distinguish the objects of one Helm release from those of others.
/// Argo CD may set another value on an object itself, but not in its pod template.
pub const HELM_INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// The DRA driver name of GPUs.
pub const DRA_GPU_DRIVER: &str = "gpu.nvidia.com";
/// The DRA driver name of ComputeDomains.
const DRA_COMPUTE_DOMAIN_DRIVER: &str = "compute-domain.nvidia.com";
/// The container names of the DRA kubelet plugin, each with the driver that it publishes.
pub const DRA_CONTAINERS: [(&str, &str); 2] =
    [("gpus", DRA_GPU_DRIVER), ("compute-domains", DRA_COMPUTE_DOMAIN_DRIVER)];
/// Common namespaces of the DRA driver (its docs, its new docs, AICR).
pub const DRA_NAMESPACES: [&str; 3] = [DRA_DRIVER, "nvidia-dra-driver", "dra-driver-nvidia-gpu"];

/// Labels by which gpu-operator recognizes a GPU node: its own, and those of node-feature-discovery
/// (its `controllers/state_manager.go`).
pub const GPU_LABELS: [&str; 4] = [
    GPU_PRESENT_LABEL,
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
];

/// Prefixes of node annotations about upgrades: NVIDIA's, and gpu-rollout's.
pub const UPGRADE_ANNOTATION_PREFIXES: [&str; 3] =
    ["nvidia.com/gpu-driver-upgrade", "nvidia.com/ofed-driver-upgrade", "gpu-rollout.dev/"];
/// The init container of a GPU driver pod that prepares the node (k8s-driver-manager).
pub const DRIVER_MANAGER_CONTAINER: &str = "k8s-driver-manager";
/// Its environment variables that must be `false` in mode `drive`: otherwise it evicts and drains
/// at the same time as the hook (the operator sets the first to true).
pub const DRIVER_MANAGER_OFF: [&str; 2] = ["ENABLE_GPU_POD_EVICTION", "ENABLE_AUTO_DRAIN"];
/// What the driver manager does while NVIDIA's controller is off: evict pods, drain and uncordon
/// the node.
pub const MANAGER_EVICTIONS: [&str; 2] = ["ENABLE_GPU_POD_EVICTION", "ENABLE_AUTO_DRAIN"];
/// The value of [`DEPLOY_DRIVER_LABEL`] that the driver manager sets on a node whose image has a
/// driver.
pub const DRIVER_PRE_INSTALLED: &str = "pre-installed";
/// Environment variable of a driver pod: a hash over all inputs of the driver's installation
/// (gpu-operator v26.3 and later).
pub const CONFIG_DIGEST_ENV: &str = "DRIVER_CONFIG_DIGEST";
/// Annotation of the API object of a static pod (Kubernetes `core/v1` `MirrorPodAnnotationKey`).
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// Annotation of a pod with secondary networks (Multus, `NetworkAttachmentAnnot`).
pub const NETWORKS_ANNOTATION: &str = "k8s.v1.cni.cncf.io/networks";
