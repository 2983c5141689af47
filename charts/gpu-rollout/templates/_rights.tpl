{{- /*
The namespaces of a scope, as {"items": […]}, without those that certainly do not exist. Arguments:
the root context, the scope.
*/}}
{{- define "gpu-rollout.namespaces" -}}
{{- $root := index . 0 -}}
{{- $scope := index . 1 -}}
{{- $all := list -}}
{{- if eq $scope "release" }}{{ $all = list $root.Release.Namespace }}{{ end -}}
{{- if eq $scope "default" }}{{ $all = list "default" }}{{ end -}}
{{- if eq $scope "operator" }}{{ $all = list (include "gpu-rollout.operatorNamespace" $root) }}{{ end -}}
{{- if eq $scope "dra" }}{{ $all = uniq $root.Values.rollout.dra.namespaces }}{{ end -}}
{{- if eq $scope "device-plugin" }}{{ $all = list (include "gpu-rollout.devicePluginNamespace" $root) }}{{ end -}}
{{- if eq $scope "acceptance" }}{{ $all = list (include "gpu-rollout.contract" $root | fromYaml).acceptanceNamespace }}{{ end -}}
{{- $present := list -}}
{{- range $all -}}
{{- if not (include "gpu-rollout.namespaceIsAbsent" (list $root .)) }}{{ $present = append $present . }}{{ end -}}
{{- end -}}
{{- dict "items" $present | toJson -}}
{{- end }}

{{- /* Whether the values meet each condition of files/rights.yaml, by its name, as JSON. */}}
{{- define "gpu-rollout.conditions" -}}
{{- $rollout := .Values.rollout -}}
{{- $policy := $rollout.upgrade.policy -}}
{{- dict
  "reroll" (eq (toString $rollout.dra.reroll) "auto")
  "eviction" (or $policy.podDeletion.enable $policy.drain.enable)
  "admission-policy" $rollout.admissionPolicy.enabled
  "acceptance" (not (empty $rollout.upgrade.acceptance))
  "acceptance-logs" (not (empty (include "gpu-rollout.readsTestLogs" .)))
  "hold" (or (ne $rollout.mode "assist") (ne $rollout.operatorUpgrade.hold "never"))
  | toJson -}}
{{- end }}

{{- /*
The RBAC rules of a scope, for the tasks, the driver and the settings of this Job; empty if there
are none. A rule about named objects is omitted where there is no name, because an empty list of
names would mean all. The rules come from files/rights.yaml, which is generated from the program's own table.
Arguments: the root context, the scope.
*/}}
{{- define "gpu-rollout.rules" -}}
{{- $root := index . 0 -}}
{{- $scope := index . 1 -}}
{{- $rollout := $root.Values.rollout -}}
{{- $contract := include "gpu-rollout.contract" $root | fromYaml -}}
{{- $names := dict
  "job" (list $root.Release.Name)
  "record" (include "gpu-rollout.records" $root | fromJsonArray)
  "lease" (list $contract.lease)
  "pauses" (list $contract.pauses)
  "operator-deployment" (list (include "gpu-rollout.operatorDeployment" $root))
  "operator-lease" (list $contract.operatorLease)
  "driver-daemon-set" (compact (list $rollout.daemonSet.name))
  "cluster-policy" (list $rollout.clusterPolicy)
  "nic-cluster-policy" (list $contract.nicClusterPolicy)
  "dra-namespaces" (uniq $rollout.dra.namespaces)
  "device-plugin-config" (compact (list (include "gpu-rollout.devicePluginConfig" $root | fromJson).name))
-}}
{{- $conditions := include "gpu-rollout.conditions" $root | fromJson -}}
{{- range $root.Files.Get "files/rights.yaml" | fromYamlArray }}
{{- if and (ne .object "any") (not (hasKey $names .object)) }}{{ fail (printf "files/rights.yaml: unknown object %s" .object) }}{{ end }}
{{- if and .when (not (hasKey $conditions .when)) }}{{ fail (printf "files/rights.yaml: unknown condition %s" .when) }}{{ end }}
{{- $applies := and (eq .scope $scope) (or (not .task) (has .task $rollout.tasks)) (or (not .driver) (eq .driver $rollout.driver)) (or (not .when) (get $conditions .when)) }}
{{- if and $applies (or (eq .object "any") (get $names .object)) }}
# {{ .why }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: {{ toJson .verbs }}
  {{- if ne .object "any" }}
  resourceNames: {{ get $names .object | toJson }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
