package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reply is the answer to one line. It is one line too.
type reply struct {
	// On reports whether upgrades are enabled.
	On bool `json:"on"`
	// Error is the error that ended the pass.
	Error string `json:"error,omitempty"`
	// Tasks is the number of evictions and drains in the background.
	Tasks int `json:"tasks"`
}

// answer makes a pass for every line `pass`. For every line, including `tasks`, it reports the number of
// running evictions and drains. It ends with standard input.
func answer(config *rest.Config, set settings) error {
	replies := json.NewEncoder(os.Stdout)
	// The drain helper prints a line to standard output for every eviction that it tries.
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	os.Stdout = nowhere
	reader, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	// The tests do not compare events.
	operator, err := newOperator(config, reader, reader, set, &record.FakeRecorder{}, ctrl.Log)
	if err != nil {
		return err
	}
	known := sets.New("pass", "tasks")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line := lines.Text()
		if !known.Has(line) {
			return fmt.Errorf("%q; expected one of %v", line, sets.List(known))
		}
		var said reply
		if line == "pass" {
			said.On, err = operator.reconcile(context.Background())
			if err != nil {
				said.Error = err.Error()
			}
		}
		said.Tasks = tasks()
		if err := replies.Encode(said); err != nil {
			return err
		}
	}
	return lines.Err()
}

// tasks counts the background work of the library. The library does not expose it, so tasks counts
// goroutines by the functions that started them.
func tasks() int {
	for size := 1 << 16; ; size *= 2 {
		buffer := make([]byte, size)
		if length := runtime.Stack(buffer, true); length < size {
			stacks := string(buffer[:length])
			return strings.Count(stacks, "created by github.com/NVIDIA/k8s-operator-libs/pkg/upgrade.(*PodManagerImpl).SchedulePodEviction") +
				strings.Count(stacks, "created by github.com/NVIDIA/k8s-operator-libs/pkg/upgrade.(*DrainManagerImpl).ScheduleNodesDrain")
		}
	}
}
