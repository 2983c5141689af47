package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/NVIDIA/k8s-operator-libs/api/upgrade/v1alpha1"
	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ownerLabel names the NVIDIADriver that a node belongs to.
	ownerLabel = "nvidia.com/gpu-operator.driver.owner"
	// appLabel is the label of driver pods that a ClusterPolicy requests. componentLabel is that of
	// all driver pods.
	appLabel       = "app"
	appValue       = "nvidia-driver-daemonset"
	componentLabel = "app.kubernetes.io/component"
	componentValue = "nvidia-driver"
	validator      = "app=nvidia-operator-validator"
	// drainSkip excludes pods with the label from every drain.
	drainSkip = "nvidia.com/gpu-driver-upgrade-drain.skip!=true"
)

// gpuOperator acts as the upgrade controller of gpu-operator.
type gpuOperator struct {
	client    client.Client
	manager   upgrade.ClusterUpgradeStateManager
	namespace string
}

func newGPUOperator(cached client.Client, live client.Reader, manager upgrade.ClusterUpgradeStateManager) *gpuOperator {
	manager = manager.WithPodDeletionEnabled(usesGPU(live)).WithValidationEnabled(validator)
	return &gpuOperator{client: cached, manager: restartOnly(manager), namespace: "gpu-operator"}
}

func (o *gpuOperator) reconcile(ctx context.Context) (bool, error) {
	policies, err := list(ctx, o.client, clusterPolicyKind)
	if err != nil {
		return false, err
	}
	if !policyPerDriver {
		return o.byClusterPolicy(ctx, oldest(policies))
	}
	active := oldest(policies)
	if active == nil || nestedBool(active, "spec", "driver", "useNvidiaDriverCRD") {
		return o.byDriver(ctx)
	}
	return o.byClusterPolicy(ctx, active)
}

// byClusterPolicy makes a pass over all nodes with the policy of the ClusterPolicy.
func (o *gpuOperator) byClusterPolicy(ctx context.Context, object *unstructured.Unstructured) (bool, error) {
	if object == nil {
		return false, nil
	}
	policy, err := policyOf(object, "spec", "driver", "upgradePolicy")
	if err != nil {
		return false, err
	}
	if policy == nil || !policy.AutoUpgrade || nestedBool(object, "spec", "sandboxWorkloads", "enabled") {
		return false, removeStates(ctx, o.client, nil)
	}
	labels := map[string]string{appLabel: appValue}
	if nestedBool(object, "spec", "driver", "useNvidiaDriverCRD") {
		labels = map[string]string{componentLabel: componentValue}
	}
	state, err := o.manager.BuildState(ctx, o.namespace, labels)
	if err != nil {
		return true, err
	}
	return true, o.apply(ctx, state, policy)
}

// byDriver makes a pass for each NVIDIADriver over the nodes that it owns. If the state cannot be
// built, no NVIDIADriver gets a pass.
func (o *gpuOperator) byDriver(ctx context.Context) (bool, error) {
	drivers, err := list(ctx, o.client, nvidiaDriverKind)
	if err != nil {
		return false, err
	}
	policies := make([]*v1alpha1.DriverUpgradePolicySpec, len(drivers))
	on := false
	for index := range drivers {
		if policies[index], err = driverPolicy(&drivers[index]); err != nil {
			return false, err
		}
		on = on || policies[index].AutoUpgrade
	}
	if !on {
		return false, removeStates(ctx, o.client, nil)
	}
	state, err := o.manager.BuildState(ctx, o.namespace, map[string]string{componentLabel: componentValue})
	if err != nil {
		return true, err
	}
	for index := range drivers {
		owner := drivers[index].GetName()
		if !policies[index].AutoUpgrade {
			if err := removeStates(ctx, o.client, client.MatchingLabels{ownerLabel: owner}); err != nil {
				return true, err
			}
			continue
		}
		part := upgrade.NewClusterUpgradeState()
		for label, nodes := range state.NodeStates {
			for _, node := range nodes {
				if node.Node.Labels[ownerLabel] == owner {
					part.NodeStates[label] = append(part.NodeStates[label], node)
				}
			}
		}
		if len(part.NodeStates) == 0 {
			continue
		}
		if err := o.apply(ctx, &part, policies[index]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// apply makes the pass. An invalid maxUnavailable is an error before the pass. The selector of a drain
// excludes pods with the skip label.
func (o *gpuOperator) apply(ctx context.Context, state *upgrade.ClusterUpgradeState, policy *v1alpha1.DriverUpgradePolicySpec) error {
	if policy.MaxUnavailable != nil {
		total := o.manager.GetTotalManagedNodes(state)
		if _, err := intstr.GetScaledValueFromIntOrPercent(policy.MaxUnavailable, total, true); err != nil {
			return err
		}
	}
	if policy.DrainSpec == nil {
		if needsDrain {
			return errors.New("the upgrade policy has no drain")
		}
		policy.DrainSpec = &v1alpha1.DrainSpec{}
	}
	policy.DrainSpec.PodSelector = and(policy.DrainSpec.PodSelector, drainSkip)
	return o.manager.ApplyState(ctx, state, policy)
}

// devices are the prefixes of the resources that are GPUs or parts of GPUs.
var devices = []string{"nvidia.com/gpu", "nvidia.com/mig-"}

// usesGPU selects the pods to remove from a node: running or pending pods with GPUs. A pod has GPUs
// through the resources of a container or, since v26.7, through an allocated ResourceClaim.
func usesGPU(reader client.Reader) upgrade.PodDeletionFilter {
	return func(pod corev1.Pod) bool {
		switch pod.Status.Phase {
		case corev1.PodRunning, corev1.PodPending:
			return slices.ContainsFunc(pod.Spec.Containers, asksForGPU) || claimsCount && holdsClaim(reader, &pod)
		default:
			return false
		}
	}
}

func asksForGPU(container corev1.Container) bool {
	for _, list := range []corev1.ResourceList{container.Resources.Requests, container.Resources.Limits} {
		for name := range list {
			if slices.ContainsFunc(devices, func(start string) bool { return strings.HasPrefix(string(name), start) }) {
				return true
			}
		}
	}
	return false
}

func and(selector, other string) string {
	if selector == "" {
		return other
	}
	return selector + "," + other
}
