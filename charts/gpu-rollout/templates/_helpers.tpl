{{- /* What both lives of the program agree on, generated from the program's own constants. */}}
{{- define "gpu-rollout.contract" -}}
{{- .Files.Get "files/contract.yaml" -}}
{{- end }}

{{- define "gpu-rollout.trigger" -}}{{ .Release.Name }}-trigger{{- end }}
{{- define "gpu-rollout.record" -}}{{ .Release.Name }}-record{{- end }}

{{- /* The ConfigMaps of the run record, as a list. A Job of single steps writes no entries of nodes, and has one. */}}
{{- define "gpu-rollout.records" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- $record := include "gpu-rollout.record" . -}}
{{- $names := list $record -}}
{{- $loops := false -}}
{{- range .Values.rollout.tasks }}{{ if not (has . $contract.steps) }}{{ $loops = true }}{{ end }}{{ end -}}
{{- if $loops }}{{ range untilStep 1 (int $contract.recordObjects) 1 }}{{ $names = append $names (printf "%s-%d" $record .) }}{{ end }}{{ end -}}
{{- toJson $names -}}
{{- end }}

{{- /* Roles and bindings: unique in a cluster, as two releases may have a Role in one namespace. */}}
{{- define "gpu-rollout.role" -}}gpu-rollout:{{ .Release.Namespace }}:{{ .Release.Name }}{{- end }}

{{- define "gpu-rollout.operatorNamespace" -}}
{{- $own := ternary .Values.rollout.daemonSet.namespace .Values.rollout.operatorNamespace (eq .Values.rollout.driver "daemonset") -}}
{{- $own | default .Release.Namespace -}}
{{- end }}

{{- define "gpu-rollout.operatorDeployment" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- .Values.rollout.operatorDeployment | default (get $contract.operatorDeployments .Values.rollout.driver) -}}
{{- end }}

{{- /* Where the device plugin runs: with the GPU operator it is one of its operands, otherwise a release of its own. */}}
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
The trigger digest D: everything that must make the hook fire again, and nothing else. Only values and the image go in: neither the
release's revision nor its history, neither the time nor the server's version, so that every deployer computes the same.
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

{{- /* Our labels, and those of the user for one object: what identifies it is ours. Arguments: the root context, the user's labels. */}}
{{- define "gpu-rollout.withLabels" -}}
{{- merge (include "gpu-rollout.labels" (index . 0) | fromYaml) (deepCopy (index . 1 | default dict)) | toYaml -}}
{{- end }}

{{- /*
Whether a namespace is certainly not there (or going away): "true" or empty. A lookup that finds nothing proves it only where lookups
work at all, which the namespace `default` shows. The release's own namespace may be created after rendering and is never looked up.
Arguments: the root context, the namespace.
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
