{{- define "bundle.repository" -}}
{{- $repository := required "\n\nrepoURL is empty: the Applications need the Git repository that contains this bundle\nhint: --set repoURL=https://…\n" .Values.repoURL -}}
{{- if hasPrefix "oci://" $repository }}
{{- fail "\n\nrepoURL is an OCI registry: for a chart from another source, Argo CD reads values files only from Git\nhint: name a Git repository\n" }}
{{- end -}}
{{- $repository | trimSuffix "/" | quote -}}
{{- end }}

{{- define "bundle.revision" -}}
{{- required "\n\ntargetRevision is empty: the Applications need the branch, tag or commit that contains this bundle\nhint: --set-string targetRevision=main\n" .Values.targetRevision | quote -}}
{{- end }}

{{- /* A path of this bundle in the repository. Arguments: the root context, the path in the bundle. */}}
{{- define "bundle.path" -}}
{{- $root := index . 0 -}}
{{- list (trimAll "/" $root.Values.path) (index . 1) | compact | join "/" -}}
{{- end }}
