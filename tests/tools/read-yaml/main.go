// Prints the content of YAML files as Go programs parse it: for each file, one line of JSON with the
// array of its documents.
//
// Helm, Flux, Argo CD and Kubernetes itself use sigs.k8s.io/yaml. helmfile and Kustomize use yaml.v3. A
// document that the two parse differently is an error, and so is a duplicate key.
//
// Usage: read-yaml FILE…
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	failed := false
	for _, path := range os.Args[1:] {
		line, err := read(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
			continue
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	if err := out.Flush(); err != nil || failed {
		os.Exit(1)
	}
}

func read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	documents := []any{}
	for _, part := range split(text) {
		converted, err := yaml.YAMLToJSONStrict(part)
		if err != nil {
			return nil, fmt.Errorf("sigs.k8s.io/yaml: %w", err)
		}
		first, err := decode(converted)
		if err != nil {
			return nil, err
		}
		second, err := withV3(part)
		if err != nil {
			return nil, fmt.Errorf("yaml.v3: %w", err)
		}
		if !reflect.DeepEqual(first, second) {
			return nil, fmt.Errorf("sigs.k8s.io/yaml reads %v, yaml.v3 reads %v", first, second)
		}
		if first != nil {
			documents = append(documents, first)
		}
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(documents); err != nil {
		return nil, err
	}
	return bytes.TrimRight(line.Bytes(), "\n"), nil
}

// split splits a stream as Kubernetes does, at lines that start with three dashes.
func split(text []byte) [][]byte {
	var parts [][]byte
	var part []byte
	for _, line := range bytes.SplitAfter(text, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("---")) {
			parts, part = append(parts, part), nil
			continue
		}
		part = append(part, line...)
	}
	return append(parts, part)
}

func withV3(text []byte) (any, error) {
	var value any
	if err := yamlv3.NewDecoder(bytes.NewReader(text)).Decode(&value); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return decode(encoded)
}

// decode keeps numbers as written.
func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}
