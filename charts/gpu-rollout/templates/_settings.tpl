{{- /*
One value of the component, as {"value": …}, or {} where the values do not set it. It must have the
type that the component's chart needs: YAML has already turned an unquoted 580.10 into 580.1.
Arguments: a map, its path (for messages), the key, the type.
*/}}
{{- define "gpu-rollout.value" -}}
{{- $section := index . 0 -}}
{{- $path := index . 1 -}}
{{- $key := index . 2 -}}
{{- $kind := index . 3 -}}
{{- $found := dict -}}
{{- if kindIs "map" $section -}}
{{- $value := get $section $key -}}
{{- if kindIs $kind $value -}}
{{- if ne (toString $value) "" }}{{ $found = dict "value" $value }}{{ end -}}
{{- else if and (hasKey $section $key) (not (kindIs "invalid" $value)) -}}
{{- $remedy := ternary "write true or false" "write it in quotes (YAML reads an unquoted 580.10 as the number 580.1)" (eq $kind "bool") -}}
{{- fail (printf "\n\n%s.%s: expected a %s, found %v\nhint: %s\n" $path $key $kind $value $remedy) -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{- /*
The objects under `objects:` in the values (shared by a release of custom resources or ConfigMaps),
as {"items": […]}.
*/}}
{{- define "gpu-rollout.objects" -}}
{{- $objects := list -}}
{{- if kindIs "slice" .Values.objects -}}
{{- range .Values.objects }}{{ if kindIs "map" . }}{{ $objects = append $objects . }}{{ end }}{{ end -}}
{{- end -}}
{{- dict "items" $objects | toJson -}}
{{- end }}

{{- /*
The component's own values that the live custom resource must match; only those that are set.
*/}}
{{- define "gpu-rollout.expected" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- $component := ternary dict .Values.rollout.component (eq .Values.rollout.driver "daemonset") -}}
{{- $expected := dict -}}
{{- if eq (toString $component.name) "gpu-operator" -}}
{{- range list (list "driverVersion" "driver" "version" "string") (list "toolkitVersion" "toolkit" "version" "string") (list "driverEnabled" "driver" "enabled" "bool") -}}
{{- $found := include "gpu-rollout.value" (list (get $.Values (index . 1)) (index . 1) (index . 2) (index . 3)) | fromJson -}}
{{- if hasKey $found "value" }}{{ $_ := set $expected (index . 0) $found.value }}{{ end -}}
{{- end -}}
{{- if kindIs "map" .Values.driver -}}
{{- $driver := .Values.driver -}}
{{- $resource := get $driver "nvidiaDriverCRD" | default dict -}}
{{- $found := include "gpu-rollout.value" (list $resource "driver.nvidiaDriverCRD" "enabled" "bool") | fromJson -}}
{{- if hasKey $found "value" }}{{ $_ := set $expected "nvidiaDrivers" $found.value }}{{ end -}}
{{- /* The keys that the operator's chart copies into the NVIDIADriver that it creates. */}}
{{- $deploys := and (hasKey $found "value") $found.value (ne (toString (get $resource "deployDefaultCR")) "false") -}}
{{- if and $deploys (ne (toString (get $driver "enabled")) "false") -}}
{{- $object := dict -}}
{{- range list "repository" "image" "version" -}}
{{- $found := include "gpu-rollout.value" (list $driver "driver" . "string") | fromJson -}}
{{- if hasKey $found "value" }}{{ $_ := set $object . $found.value }}{{ end -}}
{{- end -}}
{{- $_ := set $expected "defaultNvidiaDriver" $object -}}
{{- end -}}
{{- $policy := get $driver "upgradePolicy" -}}
{{- if kindIs "map" $policy -}}
{{- $asked := dict -}}
{{- $found := include "gpu-rollout.value" (list $policy "driver.upgradePolicy" "autoUpgrade" "bool") | fromJson -}}
{{- if hasKey $found "value" }}{{ $_ := set $asked "autoUpgrade" $found.value }}{{ end -}}
{{- $parallel := get $policy "maxParallelUpgrades" -}}
{{- if or (kindIs "float64" $parallel) (kindIs "int64" $parallel) (kindIs "int" $parallel) }}{{ $_ := set $asked "maxParallelUpgrades" (int64 $parallel) }}{{ end -}}
{{- $unavailable := get $policy "maxUnavailable" | default "" -}}
{{- if ne (toString $unavailable) "" }}{{ $_ := set $asked "maxUnavailable" (toString $unavailable) }}{{ end -}}
{{- if $asked }}{{ $_ := set $expected "upgradePolicy" $asked }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (toString $component.name) "network-operator" -}}
{{- $driver := dict -}}
{{- /*
Charts before 24.10 create the NicClusterPolicy themselves; later ones do not read these keys.
*/}}
{{- if and (eq (toString .Values.deployCR) "true") $component.version (semverCompare "<24.10.0-0" $component.version) -}}
{{- $_ := set $expected "nicClusterPolicy" true -}}
{{- if and (kindIs "map" .Values.ofedDriver) (eq (toString (get .Values.ofedDriver "deploy")) "true") }}{{ $driver = .Values.ofedDriver }}{{ end -}}
{{- end -}}
{{- range (include "gpu-rollout.objects" . | fromJson).items -}}
{{- if and (eq (toString .kind) "NicClusterPolicy") (eq (dig "metadata" "name" "" .) $contract.nicClusterPolicy) -}}
{{- $_ := set $expected "nicClusterPolicy" true -}}
{{- $driver = dig "spec" "ofedDriver" dict . | default dict -}}
{{- end -}}
{{- end -}}
{{- $found := include "gpu-rollout.value" (list $driver "ofedDriver" "version" "string") | fromJson -}}
{{- if hasKey $found "value" }}{{ $_ := set $expected "ofedDriverVersion" $found.value }}{{ end -}}
{{- end -}}
{{- toJson $expected -}}
{{- end }}

{{- /*
The component's values, which are about to be deployed, for the preflight; {} where there are none.
If the driver's section exists, a key that it omits has the operator's default, because charts are
installed with the whole file.
*/}}
{{- define "gpu-rollout.coming" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- $component := ternary dict .Values.rollout.component (eq .Values.rollout.driver "daemonset") -}}
{{- $coming := dict -}}
{{- if and (eq (toString $component.name) "gpu-operator") (kindIs "map" .Values.driver) -}}
{{- $driver := .Values.driver -}}
{{- $environment := dict -}}
{{- range get (get $driver "manager" | default dict) "env" | default list }}{{ $_ := set $environment .name (toString (.value | default "")) }}{{ end -}}
{{- $operator := .Values.operator | default dict -}}
{{- $flags := list
  (list "driver" $driver "driver" "enabled" true)
  (list "precompiled" $driver "driver" "usePrecompiled" false)
  (list "nvidiaDrivers" (get $driver "nvidiaDriverCRD" | default dict) "driver.nvidiaDriverCRD" "enabled" false)
  (list "driverToolkit" $operator "operator" "use_ocp_driver_toolkit" false)
  (list "autoUpgrade" (get $driver "upgradePolicy" | default dict) "driver.upgradePolicy" "autoUpgrade" true)
-}}
{{- range $flags -}}
{{- $found := include "gpu-rollout.value" (list (index . 1) (index . 2) (index . 3) "bool") | fromJson -}}
{{- $_ := set $coming (index . 0) (ternary $found.value (index . 4) (hasKey $found "value")) -}}
{{- end -}}
{{- $_ := set $coming "managerEnvironment" $environment -}}
{{- end -}}
{{- if eq (toString $component.name) "network-operator" -}}
{{- /*
Charts before 24.10 create the NicClusterPolicy themselves, with `autoUpgrade: true`; the custom
resource's own default is false.
*/}}
{{- if and (eq (toString .Values.deployCR) "true") $component.version (semverCompare "<24.10.0-0" $component.version) -}}
{{- $driver := .Values.ofedDriver | default dict -}}
{{- $_ := set $coming "driver" (eq (toString (get $driver "deploy")) "true") -}}
{{- $_ := set $coming "autoUpgrade" (ne (toString (get (get $driver "upgradePolicy" | default dict) "autoUpgrade")) "false") -}}
{{- end -}}
{{- range (include "gpu-rollout.objects" . | fromJson).items -}}
{{- if and (eq (toString .kind) "NicClusterPolicy") (eq (dig "metadata" "name" "" .) $contract.nicClusterPolicy) -}}
{{- $driver := dig "spec" "ofedDriver" dict . | default dict -}}
{{- $_ := set $coming "driver" (not (empty $driver)) -}}
{{- $_ := set $coming "autoUpgrade" (eq (toString (get (get $driver "upgradePolicy" | default dict) "autoUpgrade")) "true") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $coming -}}
{{- end }}

{{- /* The preflight section of the settings. */}}
{{- define "gpu-rollout.preflight" -}}
{{- $from := .Values.rollout.preflight -}}
{{- $settings := dict "coming" (include "gpu-rollout.coming" . | fromJson) "strictness" $from.strictness -}}
{{- if $from.waits.release -}}
{{- $_ := set $settings "waits" (dict "release" $from.waits.release "budgetSeconds" (int64 $from.waits.budgetSeconds)) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{- /*
The configurations that the component's values give the device plugin: the name of the ConfigMap
(empty: none that the hook must watch), the default, the fallbacks without a default, and the texts
by key if the values contain them. The stand-alone chart restarts its own pods when `config.map`
changes, and for no other change.
*/}}
{{- define "gpu-rollout.devicePluginConfig" -}}
{{- $component := .Values.rollout.component.name -}}
{{- $section := dict -}}
{{- $path := "config" -}}
{{- $fallbacks := list "named" "single" -}}
{{- if eq $component "gpu-operator" -}}
{{- $path = "devicePlugin.config" -}}
{{- $fallbacks = list "empty" -}}
{{- if kindIs "map" .Values.devicePlugin }}{{ $section = get .Values.devicePlugin "config" | default dict }}{{ end -}}
{{- else if eq $component "nvidia-device-plugin" -}}
{{- $section = .Values.config | default dict -}}
{{- if kindIs "map" $section }}{{ with get $section "fallbackStrategies" }}{{ $fallbacks = . }}{{ end }}{{ end -}}
{{- end -}}
{{- $name := get (include "gpu-rollout.value" (list $section $path "name" "string") | fromJson) "value" -}}
{{- $config := dict "name" $name "fallbacks" $fallbacks -}}
{{- with get (include "gpu-rollout.value" (list $section $path "default" "string") | fromJson) "value" }}{{ $_ := set $config "default" . }}{{ end -}}
{{- if $name -}}
{{- if and (eq $component "gpu-operator") (eq (toString (get $section "create")) "true") -}}
{{- $_ := set $config "data" (get $section "data" | default dict) -}}
{{- end -}}
{{- range (include "gpu-rollout.objects" . | fromJson).items -}}
{{- if and (eq (toString .kind) "ConfigMap") (eq (dig "metadata" "name" "" .) $name) }}{{ $_ := set $config "data" (.data | default dict) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $config -}}
{{- end }}

{{- /* The device plugin section of the settings. */}}
{{- define "gpu-rollout.devicePlugin" -}}
{{- $config := include "gpu-rollout.devicePluginConfig" . | fromJson -}}
{{- $unavailable := .Values.rollout.devicePlugin.maxUnavailable -}}
{{- $settings := dict
  "namespace" (include "gpu-rollout.devicePluginNamespace" .)
  "fallbacks" $config.fallbacks
  "maxUnavailable" (ternary $unavailable (int64 $unavailable) (kindIs "string" $unavailable))
  "replacementSeconds" (int64 .Values.rollout.devicePlugin.replacementSeconds)
-}}
{{- with .Values.rollout.devicePlugin.release }}{{ $_ := set $settings "release" . }}{{ end -}}
{{- with $config.name }}{{ $_ := set $settings "configMap" . }}{{ end -}}
{{- with $config.default }}{{ $_ := set $settings "default" . }}{{ end -}}
{{- if hasKey $config "data" -}}
{{- $digests := dict -}}
{{- range $key, $text := $config.data -}}
{{- if not (kindIs "string" $text) -}}
{{- fail (printf "\n\nConfigMap %s, key %s: expected a string, found %v\nhint: write the configuration as a block scalar: `%s: |`\n" $config.name $key $text $key) -}}
{{- end -}}
{{- $_ := set $digests $key (sha256sum $text) -}}
{{- end -}}
{{- $_ := set $settings "digests" $digests -}}
{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{- /*
The upgrade policy where the hook decides (steer, drive). A value that is disabled or empty is null
in the settings.
*/}}
{{- define "gpu-rollout.upgrade" -}}
{{- $upgrade := .Values.rollout.upgrade -}}
{{- $from := $upgrade.policy -}}
{{- $wait := dict "podSelector" $from.waitForCompletion.podSelector "timeoutSeconds" (int64 $from.waitForCompletion.timeoutSeconds) -}}
{{- $deletion := dict
  "force" $from.podDeletion.force
  "timeoutSeconds" (int64 $from.podDeletion.timeoutSeconds)
  "deleteEmptyDir" $from.podDeletion.deleteEmptyDir
-}}
{{- $drain := dict
  "force" $from.drain.force
  "podSelector" $from.drain.podSelector
  "timeoutSeconds" (int64 $from.drain.timeoutSeconds)
  "deleteEmptyDir" $from.drain.deleteEmptyDir
-}}
{{- $unavailable := $from.maxUnavailable -}}
{{- $policy := dict
  "maxParallelUpgrades" (int64 $from.maxParallelUpgrades)
  "maxUnavailable" (ternary $unavailable (int64 $unavailable) (kindIs "string" $unavailable))
  "waitForCompletion" (ternary $wait nil (ne $from.waitForCompletion.podSelector ""))
  "podDeletion" (ternary $deletion nil $from.podDeletion.enable)
  "drain" (ternary $drain nil $from.drain.enable)
-}}
{{- $ofGroup := $upgrade.topology.maxUnavailable -}}
{{- $topology := dict
  "label" $upgrade.topology.label
  "maxUnavailable" (ternary $ofGroup (int64 $ofGroup) (kindIs "string" $ofGroup))
-}}
{{- $failures := $upgrade.failureBudget -}}
{{- $settings := dict
  "policy" $policy
  "failureBudget" (ternary $failures (int64 $failures) (kindIs "string" $failures))
  "attempts" (int64 $upgrade.attempts)
  "soakSeconds" (int64 $upgrade.soakSeconds)
  "topology" (ternary $topology nil (ne $upgrade.topology.label ""))
  "foreignCordon" $upgrade.foreignCordon
  "extraConsumers" $upgrade.extraConsumers
  "startSeconds" (int64 $upgrade.startSeconds)
  "validationSeconds" (int64 $upgrade.validationSeconds)
-}}
{{- with $upgrade.windows }}{{- $_ := set $settings "windows" . }}{{- end -}}
{{- $canary := $upgrade.canary -}}
{{- if gt (int64 $canary.nodes) 0 -}}
{{- $_ := set $settings "canary" (dict "nodes" (int64 $canary.nodes) "per" $canary.per "soakSeconds" (int64 $canary.soakSeconds)) -}}
{{- end -}}
{{- with $upgrade.ramp }}{{- $_ := set $settings "ramp" . }}{{- end -}}
{{- $halt := dict -}}
{{- range $key := list "failedProofs" "failedNodes" -}}
{{- $limit := int64 (get $upgrade.halt $key) -}}
{{- if gt $limit 0 }}{{- $_ := set $halt $key $limit }}{{- end -}}
{{- end -}}
{{- with $halt }}{{- $_ := set $settings "halt" . }}{{- end -}}
{{- with (include "gpu-rollout.acceptance" . | fromJson).items }}{{- $_ := set $settings "acceptance" . }}{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{- /*
The settings of the hook Job as JSON. The program refuses unknown keys. In a template, numbers from
YAML are floating point; the settings need integers. A percentage such as 25% stays a string.
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
  "tasks" $rollout.tasks
  "driver" $rollout.driver
  "mode" $rollout.mode
  "gate" $rollout.gate
  "budgetSeconds" (int64 $rollout.budgetSeconds)
  "perNodeSeconds" (int64 $rollout.perNodeSeconds)
  "quietSeconds" (int64 $rollout.quietSeconds)
  "graceSeconds" (int64 $rollout.graceSeconds)
  "operatorNamespace" (include "gpu-rollout.operatorNamespace" .)
  "operatorDeployment" (include "gpu-rollout.operatorDeployment" .)
  "clusterPolicy" $rollout.clusterPolicy
  "tolerateNotReady" (ternary $notReady (int64 $notReady) (kindIs "string" $notReady))
  "settle" (dict "operands" $rollout.settle.operands "gpusMissing" $rollout.settle.gpusMissing)
  "operatorUpgrade" (dict "hold" $rollout.operatorUpgrade.hold)
  "upgrade" (include "gpu-rollout.upgrade" . | fromJson)
  "dra" $dra
  "devicePlugin" (include "gpu-rollout.devicePlugin" . | fromJson)
  "expected" (include "gpu-rollout.expected" . | fromJson)
-}}
{{- if has "preflight" $rollout.tasks }}{{ $_ := set $settings "preflight" (include "gpu-rollout.preflight" . | fromJson) }}{{ end -}}
{{- if eq $rollout.driver "daemonset" }}{{ $_ := set $settings "daemonSet" $rollout.daemonSet.name }}{{ end -}}
{{- if $rollout.admissionPolicy.enabled }}{{ $_ := set $settings "admissionPolicy" true }}{{ end -}}
{{- with $rollout.component.version }}{{ $_ := set $settings "componentVersion" . }}{{ end -}}
{{- toJson $settings -}}
{{- end }}
