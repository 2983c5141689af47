{{- /*
The acceptance tests in the form of the settings, as {"items": […]}: without the pod templates,
which acceptance.yaml creates.
*/}}
{{- define "gpu-rollout.acceptance" -}}
{{- $tests := list -}}
{{- range .Values.rollout.upgrade.acceptance -}}
{{- $test := dict
  "name" .name
  "timeoutSeconds" (int64 (default 600 .timeoutSeconds))
  "when" (default (list "after") .when)
  "nodes" (default "all" .nodes)
  "gpus" (default "all" .gpus)
-}}
{{- if .logLines }}{{ $_ := set $test "logLines" (int64 .logLines) }}{{ end -}}
{{- $tests = append $tests $test -}}
{{- end -}}
{{- dict "items" $tests | toJson -}}
{{- end }}

{{- /* Whether a test asks for lines of its log: "true" or empty. */}}
{{- define "gpu-rollout.readsTestLogs" -}}
{{- $reads := "" -}}
{{- range .Values.rollout.upgrade.acceptance }}{{ if .logLines }}{{ $reads = "true" }}{{ end }}{{ end -}}
{{- $reads -}}
{{- end }}

{{- /* Whether this release runs the tests: "true" or empty. A release before the operator does not. */}}
{{- define "gpu-rollout.runsAcceptance" -}}
{{- $rollout := .Values.rollout -}}
{{- if and $rollout.upgrade.acceptance (or (has "steer" $rollout.tasks) (has "drive" $rollout.tasks)) }}true{{ end -}}
{{- end }}

{{- /* The name of the PriorityClass of the tests' pods. */}}
{{- define "gpu-rollout.acceptancePriorityClass" -}}
gpu-rollout-acceptance.{{ .Release.Namespace }}.{{ .Release.Name }}
{{- end }}

{{- /*
The pod template of a test (`template`) as JSON. Unless it names a PriorityClass, it gets this one
(`class`).
*/}}
{{- define "gpu-rollout.acceptanceTemplate" -}}
{{- $template := deepCopy .template -}}
{{- if not (get $template.spec "priorityClassName") }}{{ $_ := set $template.spec "priorityClassName" .class }}{{ end -}}
{{- toJson $template -}}
{{- end }}

{{- /* Checks of the tests; `gpu-rollout.check` includes them. */}}
{{- define "gpu-rollout.checkAcceptance" -}}
{{- $root := . -}}
{{- $rollout := .Values.rollout -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- if $rollout.upgrade.acceptance -}}
{{- if not (has $rollout.mode (list "steer" "drive")) -}}
{{- fail (printf "\n\nrollout.upgrade.acceptance has tests, and rollout.mode is `%s`: NVIDIA's controller uncordons the nodes, so no test can keep one cordoned\nhint: rollout.mode: drive or steer, or remove the tests\n" $rollout.mode) -}}
{{- end -}}
{{- if ne $rollout.driver "gpu" -}}
{{- fail (printf "\n\nrollout.upgrade.acceptance has tests, and rollout.driver is %s: only nodes with a GPU driver can be tested\nhint: remove the tests\n" $rollout.driver) -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range $test := $rollout.upgrade.acceptance -}}
{{- if has .name $names -}}
{{- fail (printf "\n\nrollout.upgrade.acceptance has the test `%s` twice\nhint: give each test another name\n" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- if and (ne (default "all" .nodes) "all") (eq (int64 $rollout.upgrade.canary.nodes) 0) -}}
{{- fail (printf "\n\nthe test `%s` runs on canaries, and there are none (rollout.upgrade.canary.nodes is 0)\nhint: rollout.upgrade.canary.nodes: 1, or `nodes: all` for the test\n" .name) -}}
{{- end -}}
{{- if include "gpu-rollout.runsAcceptance" $root -}}
{{- $spec := dict -}}
{{- if kindIs "map" .template }}{{ $spec = get .template "spec" | default dict }}{{ end -}}
{{- if not (and (kindIs "map" $spec) (get $spec "containers")) -}}
{{- fail (printf "\n\nthe test `%s` of rollout.upgrade.acceptance has no pod\nhint: template: {spec: {containers: [{name: test, image: …}]}}\n" .name) -}}
{{- end -}}
{{- range $key := list "nodeName" "nodeSelector" "affinity" "activeDeadlineSeconds" "preemptionPolicy" -}}
{{- if hasKey $spec $key -}}
{{- fail (printf "\n\nthe template of the test `%s` sets `%s`, which the hook sets for each node\nhint: remove it; `timeoutSeconds` and `nodes` of the test say how long and where it runs\n" $test.name $key) -}}
{{- end -}}
{{- end -}}
{{- if ne (default "Never" (get $spec "restartPolicy")) "Never" -}}
{{- fail (printf "\n\nthe template of the test `%s` has the restartPolicy %s, but a test runs once\nhint: remove it\n" .name (get $spec "restartPolicy")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (include "gpu-rollout.runsAcceptance" .) (include "gpu-rollout.namespaceIsAbsent" (list . $contract.acceptanceNamespace)) -}}
{{- fail (printf "\n\nrollout.upgrade.acceptance has tests, and their namespace %s does not exist\nhint: kubectl create namespace %s && kubectl label namespace %s pod-security.kubernetes.io/enforce=baseline\n" $contract.acceptanceNamespace $contract.acceptanceNamespace $contract.acceptanceNamespace) -}}
{{- end -}}
{{- end }}
