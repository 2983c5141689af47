{{- /*
Labels of the hook's pod. The user's are added; the labels that identify the pod cannot be
overridden.
*/}}
{{- define "gpu-rollout.podLabels" -}}
{{- $contract := include "gpu-rollout.contract" . | fromYaml -}}
{{- $ours := include "gpu-rollout.labels" . | fromYaml -}}
{{- $_ := set $ours "gpu-rollout.dev/digest" (include "gpu-rollout.digest" . | trunc 16) -}}
{{- $defaults := dict "sidecar.istio.io/inject" "false" "istio.io/dataplane-mode" "none" -}}
{{- range $contract.drainSkipLabels }}{{ $_ := set $defaults . "true" }}{{ end -}}
{{- merge $ours (deepCopy (.Values.rollout.pod.labels | default dict)) $defaults | toYaml -}}
{{- end }}

{{- /*
Annotations of the hook's pod: no sidecar, which would outlive the program, and no eviction by an
autoscaler.
*/}}
{{- define "gpu-rollout.podAnnotations" -}}
{{- $defaults := dict
  "sidecar.istio.io/inject" "false"
  "linkerd.io/inject" "disabled"
  "cluster-autoscaler.kubernetes.io/safe-to-evict" "false"
  "karpenter.sh/do-not-disrupt" "true"
-}}
{{- merge (deepCopy (.Values.rollout.pod.annotations | default dict)) $defaults | toJson -}}
{{- end }}

{{- /*
Prefers nodes without GPUs: by the operator's label and, before the operator has set it, by
node-feature-discovery's.
*/}}
{{- define "gpu-rollout.affinity" -}}
{{- with .Values.rollout.pod.affinity -}}
{{- toYaml . -}}
{{- else -}}
nodeAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
          - {key: nvidia.com/gpu.present, operator: NotIn, values: ["true"]}
          - {key: feature.node.kubernetes.io/pci-10de.present, operator: NotIn, values: ["true"]}
          - {key: feature.node.kubernetes.io/pci-0300_10de.present, operator: NotIn, values: ["true"]}
          - {key: feature.node.kubernetes.io/pci-0302_10de.present, operator: NotIn, values: ["true"]}
{{- end -}}
{{- end }}

{{- /*
Where only GPU or control-plane nodes exist, the pod runs there, cordoned or not. Node failures are
tolerated for 30 seconds instead of Kubernetes' 300, because the Job's next pod can continue at
once.
*/}}
{{- define "gpu-rollout.tolerations" -}}
- {key: nvidia.com/gpu, operator: Exists}
- {key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}
- {key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}
- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
- {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
{{- with .Values.rollout.pod.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}
