{{- /* The constants that chart, CLI and hook share, generated from the program's own. */}}
{{- define "gpu-rollout.contract" -}}
{{- .Files.Get "files/contract.yaml" -}}
{{- end }}

{{- define "gpu-rollout.trigger" -}}{{ .Release.Name }}-trigger{{- end }}
{{- define "gpu-rollout.record" -}}{{ .Release.Name }}-record{{- end }}

{{- /*
The ConfigMaps of the run record, as a JSON list. A Job with only one-time tasks (`steps` of the
contract) writes no entries for nodes, and has one ConfigMap.
*/}}
{{- define "gpu-rollout.records" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- $record := include "gpu-rollout.record" . -}}
{{- $names := list $record -}}
{{- $loops := false -}}
{{- range .Values.rollout.tasks }}{{ if not (has . $contract.steps) }}{{ $loops = true }}{{ end }}{{ end -}}
{{- if $loops }}{{ range untilStep 1 (int $contract.recordObjects) 1 }}{{ $names = append $names (printf "%s-%d" $record .) }}{{ end }}{{ end -}}
{{- toJson $names -}}
{{- end }}

{{- /*
The name of Roles and bindings. It is unique in a cluster, because two releases may have a Role in
one namespace.
*/}}
{{- define "gpu-rollout.role" -}}gpu-rollout:{{ .Release.Namespace }}:{{ .Release.Name }}{{- end }}

{{- define "gpu-rollout.operatorNamespace" -}}
{{- $own := ternary .Values.rollout.daemonSet.namespace .Values.rollout.operatorNamespace (eq .Values.rollout.driver "daemonset") -}}
{{- $own | default .Release.Namespace -}}
{{- end }}

{{- define "gpu-rollout.operatorDeployment" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- .Values.rollout.operatorDeployment | default (get $contract.operatorDeployments .Values.rollout.driver) -}}
{{- end }}

{{- /*
The device plugin's namespace. With the GPU Operator, the plugin is an operand; otherwise, it is a
release of its own.
*/}}
{{- define "gpu-rollout.devicePluginNamespace" -}}
{{- $own := ternary (include "gpu-rollout.operatorNamespace" .) .Release.Namespace (eq .Values.rollout.component.name "gpu-operator") -}}
{{- .Values.rollout.devicePlugin.namespace | default $own -}}
{{- end }}

{{- define "gpu-rollout.image" -}}
{{- $image := .Values.rollout.image -}}
{{- $tag := $image.tag -}}
{{- if not (or $tag $image.digest) }}{{ $tag = .Chart.AppVersion }}{{ end -}}
{{- $image.repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with $image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{- /*
The trigger digest D: the hash of everything that must make the hook fire again. It covers only
values and the image. It excludes the release's revision and history, the time and the server's
version, so that every deployer computes the same.
*/}}
{{- define "gpu-rollout.digest" -}}
{{- dict "image" (include "gpu-rollout.image" .) "values" .Values | toJson | sha256sum -}}
{{- end }}

{{- define "gpu-rollout.labels" -}}
app.kubernetes.io/name: gpu-rollout
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: hook
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- /*
The chart's labels and the user's for one object; the chart's take precedence. Arguments: the root
context, the user's labels.
*/}}
{{- define "gpu-rollout.withLabels" -}}
{{- merge (include "gpu-rollout.labels" (index . 0) | fromYaml) (deepCopy (index . 1 | default dict)) | toYaml -}}
{{- end }}

{{- /*
Whether a namespace certainly does not exist (or is terminating): "true" or empty. An empty lookup
proves it only where lookups work at all, so this checks the namespace `default` first. The
release's own namespace may be created after rendering, so it is never looked up. Arguments: the
root context, the namespace.
*/}}
{{- define "gpu-rollout.namespaceIsAbsent" -}}
{{- $root := index . 0 -}}
{{- $namespace := index . 1 -}}
{{- if and $root.Values.rollout.dra.skipAbsentNamespaces (ne $namespace $root.Release.Namespace) (ne $namespace "default") -}}
{{- if lookup "v1" "Namespace" "" "default" -}}
{{- $found := lookup "v1" "Namespace" "" $namespace -}}
{{- if or (not $found) (eq (dig "status" "phase" "" $found) "Terminating") }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}
