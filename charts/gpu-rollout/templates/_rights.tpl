{{- /* The namespaces of a scope, as {"items": […]}; those that are certainly absent are left out. Arguments: the root context, the scope. */}}
{{- define "gpu-rollout.namespaces" -}}
{{- $root := index . 0 -}}
{{- $scope := index . 1 -}}
{{- $all := list -}}
{{- if eq $scope "release" }}{{ $all = list $root.Release.Namespace }}{{ end -}}
{{- if eq $scope "default" }}{{ $all = list "default" }}{{ end -}}
{{- if eq $scope "operator" }}{{ $all = list (include "gpu-rollout.operatorNamespace" $root) }}{{ end -}}
{{- if eq $scope "dra" }}{{ $all = uniq $root.Values.rollout.dra.namespaces }}{{ end -}}
{{- $present := list -}}
{{- range $all -}}
{{- if not (include "gpu-rollout.namespaceIsAbsent" (list $root .)) }}{{ $present = append $present . }}{{ end -}}
{{- end -}}
{{- dict "items" $present | toJson -}}
{{- end }}

{{- /*
The rules of a scope, for the duties of this Job; empty if there are none. They come from files/rights.yaml, which is generated from
the program's own table. Arguments: the root context, the scope.
*/}}
{{- define "gpu-rollout.rules" -}}
{{- $root := index . 0 -}}
{{- $scope := index . 1 -}}
{{- $rollout := $root.Values.rollout -}}
{{- $contract := include "gpu-rollout.contract" $root | fromYaml -}}
{{- $names := dict
  "job" (list $root.Release.Name)
  "record" (list (include "gpu-rollout.record" $root))
  "lease" (list $contract.lease)
  "operator-deployment" (list $contract.operatorDeployment)
  "cluster-policy" (list $rollout.clusterPolicy)
  "dra-namespaces" (uniq $rollout.dra.namespaces)
-}}
{{- range $root.Files.Get "files/rights.yaml" | fromYamlArray }}
{{- if and (eq .scope $scope) (or (not .duty) (has .duty $rollout.duties)) }}
# {{ .why }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: {{ toJson .verbs }}
  {{- if ne .object "any" }}
  resourceNames: {{ required (printf "files/rights.yaml: unknown object %s" .object) (get $names .object) | toJson }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
