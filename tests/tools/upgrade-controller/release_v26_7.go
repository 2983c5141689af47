//go:build !v26_3

package main

import (
	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	corev1 "k8s.io/api/core/v1"
)

const (
	// policyPerDriver: each NVIDIADriver has its own policy.
	policyPerDriver = true
	// skipWakes: a change of the skip label wakes the controller.
	skipWakes = true
	// claimsCount: a pod with an allocated ResourceClaim uses the GPU.
	claimsCount = true
	// needsDrain: the operator panics if the policy has no drain section.
	needsDrain = false
	// digestVariable contains the digest of the installed part of a driver's configuration.
	digestVariable = "DRIVER_CONFIG_DIGEST"
)

// restartOnly makes the library restart driver pods without evictions if the digest stays the same.
func restartOnly(manager upgrade.ClusterUpgradeStateManager) upgrade.ClusterUpgradeStateManager {
	return manager.WithRestartOnlyPredicate(func(running, desired *corev1.PodSpec) (bool, error) {
		now, then := digest(running), digest(desired)
		return now != "" && now == then, nil
	})
}

// digest returns the first digest in the containers of a pod, init containers first.
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
