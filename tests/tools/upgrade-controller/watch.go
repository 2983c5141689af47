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

// kind is a kind of objects whose changes wake the controller.
type kind struct {
	object client.Object
	wakes  predicate.Predicate
}

// custom returns the kind of a custom resource. Changes of its spec wake the controller.
func custom(of schema.GroupVersionKind) kind {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of)
	return kind{object, predicate.GenerationChangedPredicate{}}
}

// onUpdate accepts all events except updates for which tells is false.
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
	// The deletion of a node does not wake the controller.
	nodes := predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	// All changes of DaemonSets, including their status.
	daemonSets := predicate.NewPredicateFuncs(func(object client.Object) bool {
		_, there := object.GetLabels()[ofedLabel]
		return there
	})
	return []kind{custom(nicClusterPolicyKind), {&corev1.Node{}, nodes}, {&appsv1.DaemonSet{}, daemonSets}}
}

// backOff returns the pauses after failed passes. gpu-operator sets its own, network-operator uses those
// of controller-runtime.
func backOff(driver string) workqueue.TypedRateLimiter[reconcile.Request] {
	if driver == "gpu" {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 3*time.Second)
	}
	return workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()
}

// watch runs the controller until a signal ends it, with one worker and the same request for every
// change.
func watch(config *rest.Config, set settings) error {
	// Reads custom resources from the caches, as the operators do with their typed objects.
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	// network-operator passes no recorder to the library, so its upgrades have no events.
	var recorder record.EventRecorder
	if set.driver == "gpu" {
		//nolint:staticcheck // The library requires this type of recorder.
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

// served reports whether the API server has the kind of a custom resource. A watch of a missing kind
// would never sync.
func served(mapper meta.RESTMapper, object client.Object) bool {
	kind := object.GetObjectKind().GroupVersionKind()
	if kind.Empty() {
		return true
	}
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}
