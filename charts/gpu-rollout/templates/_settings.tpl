{{- /*
What the component's own values say that the live ClusterPolicy must come to say: only what is set. Versions must be strings, as YAML
has already turned an unquoted 580.10 into 580.1.
*/}}
{{- define "gpu-rollout.expected" -}}
{{- $expected := dict -}}
{{- if eq .Values.rollout.component.name "gpu-operator" -}}
{{- range $key, $path := dict "driverVersion" (list "driver" "version") "toolkitVersion" (list "toolkit" "version") "driverEnabled" (list "driver" "enabled") -}}
{{- $section := index $.Values (index $path 0) -}}
{{- if kindIs "map" $section -}}
{{- $value := index $section (index $path 1) -}}
{{- $wanted := ternary "bool" "string" (eq $key "driverEnabled") -}}
{{- if kindIs $wanted $value -}}
{{- if ne (toString $value) "" }}{{ $_ := set $expected $key $value }}{{ end -}}
{{- else if not (kindIs "invalid" $value) -}}
{{- $remedy := ternary "write true or false" "write it in quotes (YAML reads an unquoted 580.10 as the number 580.1)" (eq $wanted "bool") -}}
{{- fail (printf "\n\n%s: expected a %s, found %v\nhint: %s\n" (join "." $path) $wanted $value $remedy) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $expected -}}
{{- end }}

{{- /*
The settings of the hook Job as JSON. The program refuses a key that it does not know. Numbers out of YAML are floating point in a
template, and settings are whole numbers; a share such as 25% stays text.
*/}}
{{- define "gpu-rollout.settings" -}}
{{- $rollout := .Values.rollout -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- $notReady := $rollout.tolerateNotReady -}}
{{- $unavailable := $rollout.dra.maxUnavailable -}}
{{- $dra := dict
  "reroll" (ternary "auto" "off" (eq (toString $rollout.dra.reroll) "auto"))
  "required" (toString $rollout.dra.required)
  "namespaces" (uniq $rollout.dra.namespaces)
  "maxUnavailable" (ternary $unavailable (int64 $unavailable) (kindIs "string" $unavailable))
  "replacementSeconds" (int64 $rollout.dra.replacementSeconds)
-}}
{{- $settings := dict
  "formatVersion" (int64 $contract.formatVersion)
  "digest" (include "gpu-rollout.digest" .)
  "release" .Release.Name
  "namespace" .Release.Namespace
  "record" (include "gpu-rollout.record" .)
  "component" $rollout.component.name
  "duties" $rollout.duties
  "mode" $rollout.mode
  "gate" $rollout.gate
  "budgetSeconds" (int64 $rollout.budgetSeconds)
  "perNodeSeconds" (int64 $rollout.perNodeSeconds)
  "quietSeconds" (int64 $rollout.quietSeconds)
  "graceSeconds" (int64 $rollout.graceSeconds)
  "operatorNamespace" (include "gpu-rollout.operatorNamespace" .)
  "clusterPolicy" $rollout.clusterPolicy
  "tolerateNotReady" (ternary $notReady (int64 $notReady) (kindIs "string" $notReady))
  "dra" $dra
  "expected" (include "gpu-rollout.expected" . | fromJson)
-}}
{{- with $rollout.component.version }}{{ $_ := set $settings "componentVersion" . }}{{ end -}}
{{- toJson $settings -}}
{{- end }}
