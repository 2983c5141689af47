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

// reply is the answer to one line, itself one line.
type reply struct {
	// On: upgrades are on.
	On bool `json:"on"`
	// Error is what ended the pass.
	Error string `json:"error,omitempty"`
	// Tasks: evictions and drains that run in the background.
	Tasks int `json:"tasks"`
}

// answer makes a pass for every line `pass`, and tells for every line, `tasks` among them, how many evictions and drains run. It ends with
// standard input.
func answer(config *rest.Config, set settings) error {
	replies := json.NewEncoder(os.Stdout)
	// The drain helper talks on standard output, a line for every eviction that it tries.
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	os.Stdout = nowhere
	reader, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return err
	}
	// Events are no part of what is compared.
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

// tasks counts the library's background work. It keeps no account of it that could be asked, so its goroutines are counted by the functions
// that they were started in.
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
