package main

import (
	"context"

	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ofedLabel is the label of OFED driver DaemonSets and pods. ofedOwner names their owner.
	ofedLabel      = "nvidia.com/ofed-driver"
	ofedOwner      = "ds-owner"
	ofedOwnerValue = "NicClusterPolicy"
	ofedDrainSkip  = "nvidia.com/ofed-driver-upgrade-drain.skip!=true"
)

// networkOperator acts as the upgrade controller of network-operator for the NicClusterPolicy. It
// evicts no pods and validates nothing. NicNodePolicies and the maintenance-operator are not used here.
type networkOperator struct {
	client    client.Client
	manager   upgrade.ClusterUpgradeStateManager
	namespace string
}

func newNetworkOperator(cached client.Client, manager upgrade.ClusterUpgradeStateManager) *networkOperator {
	return &networkOperator{client: cached, manager: manager, namespace: "nvidia-network-operator"}
}

func (o *networkOperator) reconcile(ctx context.Context) (bool, error) {
	policies, err := list(ctx, o.client, nicClusterPolicyKind)
	if err != nil {
		return false, err
	}
	object := oldest(policies)
	if object == nil {
		return false, removeStates(ctx, o.client, nil)
	}
	policy, err := policyOf(object, "spec", "ofedDriver", "upgradePolicy")
	if err != nil {
		return false, err
	}
	if policy == nil || !policy.AutoUpgrade {
		return false, removeStates(ctx, o.client, nil)
	}
	// Its policy has no such fields.
	policy.MaxUnavailable, policy.PodDeletion = nil, nil
	if policy.DrainSpec != nil && policy.DrainSpec.Enable {
		policy.DrainSpec.PodSelector = and(policy.DrainSpec.PodSelector, ofedDrainSkip)
	}
	state, err := o.manager.BuildState(ctx, o.namespace, map[string]string{ofedLabel: "", ofedOwner: ofedOwnerValue})
	if err != nil {
		return true, err
	}
	return true, o.manager.ApplyState(ctx, state, policy)
}
