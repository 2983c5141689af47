package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/NVIDIA/k8s-operator-libs/api/upgrade/v1alpha1"
	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	clusterPolicyKind    = schema.GroupVersionKind{Group: "nvidia.com", Version: "v1", Kind: "ClusterPolicy"}
	nvidiaDriverKind     = schema.GroupVersionKind{Group: "nvidia.com", Version: "v1alpha1", Kind: "NVIDIADriver"}
	nicClusterPolicyKind = schema.GroupVersionKind{Group: "mellanox.com", Version: "v1alpha1", Kind: "NicClusterPolicy"}
)

// list returns all objects of a kind, or none if the API server does not have the kind.
func list(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	if err := reader.List(ctx, objects); err != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return objects.Items, nil
}

// oldest returns the object that applies if there are several: the one that was created first, then the
// first by name.
func oldest(objects []unstructured.Unstructured) *unstructured.Unstructured {
	if len(objects) == 0 {
		return nil
	}
	first := slices.MinFunc(objects, func(one, other unstructured.Unstructured) int {
		return cmp.Or(one.GetCreationTimestamp().Compare(other.GetCreationTimestamp().Time), cmp.Compare(one.GetName(), other.GetName()))
	})
	return &first
}

// policyOf returns the upgrade policy at a path of an object, or nil if there is none.
func policyOf(object *unstructured.Unstructured, path ...string) (*v1alpha1.DriverUpgradePolicySpec, error) {
	found, there, err := unstructured.NestedMap(object.Object, path...)
	if err != nil || !there {
		return nil, err
	}
	text, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	policy := &v1alpha1.DriverUpgradePolicySpec{}
	if err := json.Unmarshal(text, policy); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", object.GetKind(), object.GetName(), err)
	}
	return policy, nil
}

// driverPolicy returns the policy of an NVIDIADriver. Without a policy, upgrades are enabled. Missing
// fields have the defaults of the API.
func driverPolicy(object *unstructured.Unstructured) (*v1alpha1.DriverUpgradePolicySpec, error) {
	policy, err := policyOf(object, "spec", "upgradePolicy")
	if err != nil {
		return nil, err
	}
	if policy == nil {
		policy = &v1alpha1.DriverUpgradePolicySpec{AutoUpgrade: true, MaxParallelUpgrades: 1}
	}
	if policy.MaxUnavailable == nil {
		quarter := intstr.FromString("25%")
		policy.MaxUnavailable = &quarter
	}
	if policy.PodDeletion == nil {
		policy.PodDeletion = &v1alpha1.PodDeletionSpec{TimeoutSecond: 300}
	}
	if policy.WaitForCompletion == nil {
		policy.WaitForCompletion = &v1alpha1.WaitForCompletionSpec{}
	}
	if policy.DrainSpec == nil {
		policy.DrainSpec = &v1alpha1.DrainSpec{TimeoutSecond: 300}
	}
	return policy, nil
}

// nestedBool returns a flag, which is false if it is not set. The CustomResourceDefinitions allow only a
// boolean there.
func nestedBool(object *unstructured.Unstructured, path ...string) bool {
	found, _, err := unstructured.NestedBool(object.Object, path...)
	return err == nil && found
}

// removeStates removes the state label from all matching nodes that have it, and nothing else.
func removeStates(ctx context.Context, writer client.Client, matching client.MatchingLabels) error {
	key := upgrade.GetUpgradeStateLabelKey()
	var labeled corev1.NodeList
	if err := writer.List(ctx, &labeled, client.HasLabels{key}, matching); err != nil {
		return err
	}
	without := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, key))
	for index := range labeled.Items {
		if err := writer.Patch(ctx, &labeled.Items[index], without); err != nil {
			return err
		}
	}
	return nil
}
