//go:build v26_3

package main

import "github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"

// release_v26_7.go describes these constants.
const (
	policyPerDriver = false
	skipWakes       = false
	claimsCount     = false
	needsDrain      = true
)

// restartOnly does nothing, because this library has no such option.
func restartOnly(manager upgrade.ClusterUpgradeStateManager) upgrade.ClusterUpgradeStateManager {
	return manager
}
