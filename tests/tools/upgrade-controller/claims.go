package main

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gpuDRADriver is the DRA driver whose allocations are GPUs.
const gpuDRADriver = "gpu.nvidia.com"

// holdsClaim reports whether one of the pod's ResourceClaims has an allocated GPU. A claim without a
// name does not count. A claim that cannot be read counts.
func holdsClaim(reader client.Reader, pod *corev1.Pod) bool {
	made := map[string]*string{}
	for _, status := range pod.Status.ResourceClaimStatuses {
		made[status.Name] = status.ResourceClaimName
	}
	return slices.ContainsFunc(pod.Spec.ResourceClaims, func(asked corev1.PodResourceClaim) bool {
		name := asked.ResourceClaimName
		if name == nil {
			name = made[asked.Name]
		}
		if name == nil {
			return false
		}
		var claim resourcev1.ResourceClaim
		err := reader.Get(context.Background(), client.ObjectKey{Namespace: pod.Namespace, Name: *name}, &claim)
		return err != nil || isGPU(claim.Status.Allocation)
	})
}

// isGPU reports whether an allocation contains a device of the GPU driver. Administrator access does
// not count, because it does not reserve the device.
func isGPU(allocation *resourcev1.AllocationResult) bool {
	return allocation != nil && slices.ContainsFunc(allocation.Devices.Results, func(device resourcev1.DeviceRequestAllocationResult) bool {
		forAdministrators := device.AdminAccess != nil && *device.AdminAccess
		return device.Driver == gpuDRADriver && !forAdministrators
	})
}
