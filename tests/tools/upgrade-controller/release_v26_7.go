//go:build !v26_3

package main

import (
	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	corev1 "k8s.io/api/core/v1"
)

const (
	// policyPerDriver: each NVIDIADriver goes by its own policy.
	policyPerDriver = true
	// skipWakes: a change of the skip label wakes the controller.
	skipWakes = true
	// claimsCount: an allocated ResourceClaim makes a pod one that uses the GPU.
	claimsCount = true
	// needsDrain: the operator cannot do without a drain section in the policy, it panics.
	needsDrain = false
	// digestVariable says what of a driver's configuration is installed.
	digestVariable = "DRIVER_CONFIG_DIGEST"
)

// restartOnly has pods restarted without evicting anything where what is installed stays the same.
func restartOnly(manager upgrade.ClusterUpgradeStateManager) upgrade.ClusterUpgradeStateManager {
	return manager.WithRestartOnlyPredicate(func(running, desired *corev1.PodSpec) (bool, error) {
		now, then := digest(running), digest(desired)
		return now != "" && now == then, nil
	})
}

// digest is the first one that a container has, init containers first.
func digest(spec *corev1.PodSpec) string {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for index := range containers {
			for _, variable := range containers[index].Env {
				if variable.Name == digestVariable && variable.Value != "" {
					return variable.Value
				}
			}
		}
	}
	return ""
}
