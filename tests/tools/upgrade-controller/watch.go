package main

import (
	"context"
	"maps"
	"time"

	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// kind is something whose changes wake the controller.
type kind struct {
	object client.Object
	wakes  predicate.Predicate
}

// custom is a custom resource whose spec wakes the controller.
func custom(of schema.GroupVersionKind) kind {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of)
	return kind{object, predicate.GenerationChangedPredicate{}}
}

// onUpdate lets every event through, and of updates those only that tell.
func onUpdate(tells func(before, after client.Object) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return tells(e.ObjectOld, e.ObjectNew) }}
}

func (o *gpuOperator) kinds() []kind {
	nodes := onUpdate(func(before, after client.Object) bool {
		differs := func(key string) bool { return before.GetLabels()[key] != after.GetLabels()[key] }
		return differs(upgrade.GetUpgradeStateLabelKey()) || (skipWakes && differs(upgrade.GetUpgradeSkipNodeLabelKey()))
	})
	owned := func(object client.Object) bool {
		for _, owner := range object.GetOwnerReferences() {
			of := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
			if of == clusterPolicyKind || of == nvidiaDriverKind {
				labels := object.GetLabels()
				return labels[appLabel] == appValue || labels[componentLabel] == componentValue
			}
		}
		return false
	}
	daemonSets := predicate.And[client.Object](predicate.GenerationChangedPredicate{}, predicate.NewPredicateFuncs(owned))
	kinds := []kind{custom(clusterPolicyKind), {&corev1.Node{}, nodes}, {&appsv1.DaemonSet{}, daemonSets}}
	if policyPerDriver {
		kinds = append(kinds, custom(nvidiaDriverKind))
	}
	return kinds
}

func (o *networkOperator) kinds() []kind {
	// A node that goes does not wake it.
	nodes := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	// Of DaemonSets everything, their status too.
	daemonSets := predicate.NewPredicateFuncs(func(object client.Object) bool {
		_, there := object.GetLabels()[ofedLabel]
		return there
	})
	return []kind{custom(nicClusterPolicyKind), {&corev1.Node{}, nodes}, {&appsv1.DaemonSet{}, daemonSets}}
}

// backOff is the pause after a pass that failed: gpu-operator sets its own, network-operator has controller-runtime's.
func backOff(driver string) workqueue.TypedRateLimiter[reconcile.Request] {
	if driver == "gpu" {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 3*time.Second)
	}
	return workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()
}

// watch runs the controller until it is told to end: one worker, one request whatever has changed.
func watch(config *rest.Config, set settings) error {
	// The custom resources are read from the caches, as they are where they have types.
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	// network-operator gives the library none, so that its upgrades have no events.
	var recorder record.EventRecorder
	if set.driver == "gpu" {
		//nolint:staticcheck // The library takes a recorder of this kind.
		recorder = manager.GetEventRecorderFor("nvidia-gpu-operator")
	}
	operator, err := newOperator(manager.GetConfig(), manager.GetClient(), manager.GetAPIReader(), set, recorder, manager.GetLogger())
	if err != nil {
		return err
	}
	reconciler := reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		on, err := operator.reconcile(ctx)
		if err != nil || !on {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: set.requeueAfter}, nil
	})
	loop, err := controller.New("upgrade-controller", manager, controller.Options{
		Reconciler: reconciler, MaxConcurrentReconciles: 1, RateLimiter: backOff(set.driver),
	})
	if err != nil {
		return err
	}
	one := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "driver-upgrade"}}}
	})
	for _, kind := range operator.kinds() {
		if !served(manager.GetRESTMapper(), kind.object) {
			continue
		}
		if err := loop.Watch(source.Kind(manager.GetCache(), kind.object, one, kind.wakes)); err != nil {
			return err
		}
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

// served tells whether the API server has the kind of a custom resource; a watch would wait for it in vain.
func served(mapper meta.RESTMapper, object client.Object) bool {
	kind := object.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		return true
	}
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}
