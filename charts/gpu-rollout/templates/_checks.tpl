{{- /* What the schema cannot say. Called from one template; one failure stops the whole render. */}}
{{- define "gpu-rollout.check" -}}
{{- $rollout := .Values.rollout -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- if not $rollout.duties -}}
{{- fail "\n\nrollout.duties is empty: the hook would have nothing to do\nhint: rollout.duties: [settle, reroll]\n" -}}
{{- end -}}
{{- if and (has "reroll" $rollout.duties) (not (has "settle" $rollout.duties)) -}}
{{- fail "\n\nrollout.duties has `reroll` without `settle`: a plugin is re-rolled when the driver on its node is ready, and settle is what watches drivers\nhint: rollout.duties: [settle, reroll]\n" -}}
{{- end -}}
{{- if ne $rollout.driver "gpu" -}}
{{- range list "reroll" "restart-plugins" -}}
{{- if has . $rollout.duties -}}
{{- fail (printf "\n\nrollout.duties has `%s` and rollout.driver is %s: what it restarts belongs to the GPU driver\nhint: rollout.driver: gpu, or take `%s` out of rollout.duties\n" . $rollout.driver .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (has "reroll" $rollout.duties) (not $rollout.dra.namespaces) -}}
{{- fail "\n\nrollout.dra.namespaces is empty: the hook has nowhere to look for the DRA driver\nhint: name its namespace, or take `reroll` out of rollout.duties\n" -}}
{{- end -}}
{{- $least := add (int64 $rollout.quietSeconds) (int64 $contract.marginSeconds) 1 -}}
{{- if lt (int64 $rollout.budgetSeconds) $least -}}
{{- fail (printf "\n\nrollout.budgetSeconds is %d: no run can succeed in it, as quietSeconds (%d) and a margin of %d seconds are part of it\nhint: at least %d; for a whole fleet 900 + perNodeSeconds * GPU nodes / nodes upgraded at once\n" (int64 $rollout.budgetSeconds) (int64 $rollout.quietSeconds) (int64 $contract.marginSeconds) $least) -}}
{{- end -}}
{{- end }}
