// upgrade-controller runs NVIDIA's driver-upgrade state machine as NVIDIA's operators do: the state machine itself is the real one
// (github.com/NVIDIA/k8s-operator-libs, package upgrade), what the operators put around it (which changes wake it, which policy holds, which
// pods use a GPU) is written here from what they are known to do. The end-to-end tests have it as the vendor.
//
// It is built twice: with the library of gpu-operator v26.3 (v26.3.mod, build tag v26_3) and with that of v26.7 (go.mod). network-operator
// uses an older version, which cannot be had; here it runs with that of v26.3.
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

// settings are what the command line says.
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

// operator is what an operator puts around the state machine.
type operator interface {
	// reconcile does what one request does. It says whether upgrades are on: only then is there a next pass without a change.
	reconcile(ctx context.Context) (on bool, err error)
	// kinds are the objects whose changes wake it.
	kinds() []kind
}

// newOperator is the one of the driver, with the library's manager made as that operator makes it. live: reads past all caches.
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
