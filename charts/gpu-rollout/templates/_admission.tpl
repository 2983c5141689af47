{{- /*
The names of the admission policies. They are unique in a cluster: a namespace contains no dot.
Arguments: the root context, what the policy protects.
*/}}
{{- define "gpu-rollout.policy" -}}
{{- $root := index . 0 -}}
gpu-rollout.{{ $root.Release.Namespace }}.{{ $root.Release.Name }}.{{ index . 1 }}
{{- end }}

{{- /*
What the tasks of this Job change on nodes, as JSON: `patches` (whether they change nodes at all),
`cordon`, `uncordon`, `labels`, `annotations`. The rows come from files/node-changes.yaml, which is
generated from the program's own table.
*/}}
{{- define "gpu-rollout.nodeChanges" -}}
{{- $rollout := .Values.rollout -}}
{{- $all := dict "patches" false "cordon" false "uncordon" false "labels" list "annotations" list -}}
{{- range .Files.Get "files/node-changes.yaml" | fromYamlArray }}
{{- if and (has .task $rollout.tasks) (eq .driver $rollout.driver) }}
{{- $_ := set $all "patches" true }}
{{- $_ := set $all "cordon" (or $all.cordon .cordon) }}
{{- $_ := set $all "uncordon" (or $all.uncordon .uncordon) }}
{{- $_ := set $all "labels" (concat $all.labels .labels | uniq | sortAlpha) }}
{{- $_ := set $all "annotations" (concat $all.annotations .annotations | uniq | sortAlpha) }}
{{- end }}
{{- end }}
{{- toJson $all -}}
{{- end }}

{{- /*
CEL: the keys of a map that differ from those of the old one. Arguments: the name of the variable
with the map, the name of the variable with the old map.
*/}}
{{- define "gpu-rollout.changedKeys" -}}
{{- $new := printf "variables.%s" (index . 0) -}}
{{- $old := printf "variables.%s" (index . 1) -}}
{{ $new }}.filter(key, !(key in {{ $old }}) || {{ $new }}[key] != {{ $old }}[key])
+ {{ $old }}.filter(key, !(key in {{ $new }}))
{{- end }}

{{- /*
CEL: a field of the metadata. Arguments: `object` or `oldObject`, the field, its empty value.
*/}}
{{- define "gpu-rollout.metadata" -}}
{{- $field := printf "%s.metadata.%s" (index . 0) (index . 1) -}}
has({{ $field }}) ? {{ $field }} : {{ index . 2 }}
{{- end }}
