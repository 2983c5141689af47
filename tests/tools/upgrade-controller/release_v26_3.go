//go:build v26_3

package main

import "github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"

// What they mean is said in release_v26_7.go.
const (
	policyPerDriver = false
	skipWakes       = false
	claimsCount     = false
	needsDrain      = true
)

// restartOnly: this library has no such thing.
func restartOnly(manager upgrade.ClusterUpgradeStateManager) upgrade.ClusterUpgradeStateManager {
	return manager
}
