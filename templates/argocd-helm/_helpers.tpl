{{- define "bundle.repository" -}}
{{- $repository := required "\n\nrepoURL is empty: the Applications must say which Git repository holds this bundle\nhint: --set repoURL=https://…\n" .Values.repoURL -}}
{{- if hasPrefix "oci://" $repository }}
{{- fail "\n\nrepoURL is an OCI registry: Argo CD reads values files of a chart that comes from elsewhere from Git only\nhint: name a Git repository\n" }}
{{- end -}}
{{- $repository | trimSuffix "/" | quote -}}
{{- end }}

{{- define "bundle.revision" -}}
{{- required "\n\ntargetRevision is empty: the Applications must say which branch, tag or commit holds this bundle\nhint: --set-string targetRevision=main\n" .Values.targetRevision | quote -}}
{{- end }}

{{- /* A path of this bundle in the repository. Arguments: the root context, the path in the bundle. */}}
{{- define "bundle.path" -}}
{{- $root := index . 0 -}}
{{- list (trimAll "/" $root.Values.path) (index . 1) | compact | join "/" -}}
{{- end }}
