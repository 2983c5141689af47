{{- /*
Checks that a JSON schema cannot express. Only trigger.yaml includes this; the first failure stops
the render.
*/}}
{{- define "gpu-rollout.check" -}}
{{- $rollout := .Values.rollout -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- if eq $rollout.driver "daemonset" -}}
{{- if not (and $rollout.daemonSet.namespace $rollout.daemonSet.name) -}}
{{- fail "\n\nrollout.driver is daemonset, and rollout.daemonSet does not name a DaemonSet\nhint: rollout.daemonSet: {namespace: …, name: …}\n" -}}
{{- end -}}
{{- if has $rollout.mode (list "assist" "steer") -}}
{{- fail (printf "\n\nrollout.mode is `%s` and rollout.driver is daemonset: NVIDIA's controller does not upgrade a DaemonSet of your own, so the hook can neither wake it nor let it act\nhint: rollout.mode: drive, with rollout.tasks: [settle, drive], or observe, with [settle]\n" $rollout.mode) -}}
{{- end -}}
{{- $policy := $rollout.upgrade.policy -}}
{{- if and (eq $rollout.mode "drive") $policy.podDeletion.enable (not $rollout.upgrade.extraConsumers) (not $policy.drain.enable) -}}
{{- fail "\n\nrollout.driver is daemonset, and no setting selects the pods that must leave a node before its pod is replaced\nhint: select the pods that use the driver in rollout.upgrade.extraConsumers, or drain the nodes (rollout.upgrade.policy.drain.enable: true), or evict no pods (rollout.upgrade.policy.podDeletion.enable: false)\n" -}}
{{- end -}}
{{- end -}}
{{- $own := get $contract.modeTasks $rollout.mode -}}
{{- $after := list "settle" -}}
{{- range $own }}{{ if not (has . $contract.steps) }}{{ $after = append $after . }}{{ end }}{{ end -}}
{{- $usual := ternary (append $after "reroll") $after (eq $rollout.driver "gpu") | join ", " -}}
{{- if not $rollout.tasks -}}
{{- fail (printf "\n\nrollout.tasks is empty, so the hook would have nothing to do\nhint: rollout.tasks: [%s]\n" $usual) -}}
{{- end -}}
{{- range $rollout.tasks -}}
{{- $task := . -}}
{{- $modes := list -}}
{{- range $mode, $tasks := $contract.modeTasks }}{{ if has $task $tasks }}{{ $modes = append $modes $mode }}{{ end }}{{ end -}}
{{- if and $modes (not (has $rollout.mode $modes)) -}}
{{- fail (printf "\n\nrollout.tasks has `%s`, which mode `%s` does not have (only %s)\nhint: rollout.tasks: [%s], or another rollout.mode\n" $task $rollout.mode (join ", " $modes) $usual) -}}
{{- end -}}
{{- end -}}
{{- if has "settle" $rollout.tasks -}}
{{- if or (eq $rollout.driver "daemonset") (has $rollout.component.name (values $contract.operators)) -}}
{{- range $after -}}
{{- if not (has . $rollout.tasks) -}}
{{- fail (printf "\n\nrollout.mode is `%s` and rollout.tasks has no `%s`, which the mode needs\nhint: rollout.tasks: [%s], or rollout.mode: observe\n" $rollout.mode . $usual) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- else -}}
{{- range $rollout.tasks -}}
{{- if has . (list "wake" "steer" "drive" "reroll") -}}
{{- fail (printf "\n\nrollout.tasks has `%s` without `settle`, the task that watches drivers\nhint: rollout.tasks: [%s]\n" . $usual) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $wait := $rollout.upgrade.policy.waitForCompletion -}}
{{- if and (has $rollout.mode (list "steer" "drive")) $wait.podSelector (eq (int64 $wait.timeoutSeconds) 0) -}}
{{- fail "\n\nrollout.upgrade.policy.waitForCompletion waits forever: timeoutSeconds is 0, and a Job with a time budget cannot wait forever\nhint: set timeoutSeconds to how long a job may delay its node\n" -}}
{{- end -}}
{{- $before := "" -}}
{{- range $rollout.upgrade.ramp -}}
{{- if and $before (le (trimSuffix "%" . | int64) (trimSuffix "%" $before | int64)) -}}
{{- fail (printf "\n\nrollout.upgrade.ramp does not rise: it has %s after %s\nhint: each share contains the nodes of the one before it, such as [10%%, 50%%, 100%%]\n" . $before) -}}
{{- end -}}
{{- $before = . -}}
{{- end -}}
{{- include "gpu-rollout.checkAcceptance" . -}}
{{- if ne $rollout.driver "gpu" -}}
{{- range list "reroll" "restart-plugins" -}}
{{- if has . $rollout.tasks -}}
{{- fail (printf "\n\nrollout.tasks has `%s` and rollout.driver is %s: the pods that this task restarts belong to the GPU driver\nhint: rollout.driver: gpu, or remove `%s` from rollout.tasks\n" . $rollout.driver .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (has "reroll" $rollout.tasks) (not $rollout.dra.namespaces) -}}
{{- fail "\n\nrollout.dra.namespaces is empty, so the hook cannot find the DRA driver\nhint: name its namespace, or remove `reroll` from rollout.tasks\n" -}}
{{- end -}}
{{- range $object := list "podMonitor" "prometheusRule" -}}
{{- if and (get $rollout.metrics $object).enabled (not $rollout.metrics.enabled) -}}
{{- fail (printf "\n\nrollout.metrics.%s.enabled is true and rollout.metrics.enabled is false, so it would have no metrics\nhint: rollout.metrics.enabled: true\n" $object) -}}
{{- end -}}
{{- end -}}
{{- $least := add (int64 $rollout.quietSeconds) (int64 $contract.marginSeconds) 1 -}}
{{- if lt (int64 $rollout.budgetSeconds) $least -}}
{{- fail (printf "\n\nrollout.budgetSeconds is %d, and no run can succeed in that time: it includes quietSeconds (%d) and a margin of %d seconds\nhint: at least %d; for a whole fleet, 900 + perNodeSeconds * GPU nodes / nodes upgraded at once\n" (int64 $rollout.budgetSeconds) (int64 $rollout.quietSeconds) (int64 $contract.marginSeconds) $least) -}}
{{- end -}}
{{- end }}
