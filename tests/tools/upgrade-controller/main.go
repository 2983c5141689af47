// upgrade-controller runs NVIDIA's driver-upgrade state machine as NVIDIA's operators do. The state
// machine is the real one (github.com/NVIDIA/k8s-operator-libs, package upgrade). The code of the
// operators around it (which changes wake it, which policy applies, which pods use a GPU) was written
// for this project from their known behavior. It is the vendor's controller in the end-to-end tests.
//
// It is built twice: with the library of gpu-operator v26.3 (v26.3.mod, build tag v26_3) and with that
// of v26.7 (go.mod). network-operator uses an older version, which is not available. Here it runs with
// that of v26.3.
//
// Usage: upgrade-controller [--driver gpu|ofed] [--requeue-after 2m] [--passes]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// settings are the options of the command line.
type settings struct {
	driver       string
	requeueAfter time.Duration
	passes       bool
}

func main() {
	var set settings
	flag.StringVar(&set.driver, "driver", "gpu", "whose upgrades: gpu (gpu-operator) or ofed (network-operator)")
	flag.DurationVar(&set.requeueAfter, "requeue-after", 2*time.Minute, "pause after a pass that went well; the operators have 2m")
	flag.BoolVar(&set.passes, "passes", false, "make a pass for every line `pass` on standard input, and none otherwise")
	flag.Parse()
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	if err := run(set); err != nil {
		fmt.Fprintf(os.Stderr, "upgrade-controller: %v\n", err)
		os.Exit(1)
	}
}

func run(set settings) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if set.passes {
		return answer(config, set)
	}
	return watch(config, set)
}

// operator is the code of an operator around the state machine.
type operator interface {
	// reconcile handles one request. It returns whether upgrades are enabled. Only then does a next
	// pass follow without a change.
	reconcile(ctx context.Context) (on bool, err error)
	// kinds are the objects whose changes wake it.
	kinds() []kind
}

// newOperator returns the operator of a driver, with the library's manager configured as in that
// operator. live bypasses all caches.
func newOperator(config *rest.Config, cached client.Client, live client.Reader, set settings, recorder record.EventRecorder, log logr.Logger) (operator, error) {
	upgrade.SetDriverName(set.driver)
	manager, err := upgrade.NewClusterUpgradeStateManager(log, config, recorder, upgrade.StateOptions{})
	if err != nil {
		return nil, err
	}
	switch set.driver {
	case "gpu":
		return newGPUOperator(cached, live, manager), nil
	case "ofed":
		return newNetworkOperator(cached, manager), nil
	default:
		return nil, fmt.Errorf("--driver %q; expected gpu or ofed", set.driver)
	}
}
