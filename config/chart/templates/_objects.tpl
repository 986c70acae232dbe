{{/*
The objects of the chart are those of kustomize: the folders below files are links to them. A template loads a
file, changes what the values say, and prints the objects.
*/}}

{{/* vidra.load returns the objects of .file as YAML with the key objects, for fromYaml. */}}
{{- define "vidra.load" -}}
{{- $objects := list -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get .file) -1 -}}
{{- $object := fromYaml . -}}
{{- if hasKey $object "kind" -}}
{{- $objects = append $objects $object -}}
{{- else if $object -}}
{{- fail (printf "%s: %s" $.file (toJson $object)) -}}
{{- end -}}
{{- end -}}
{{- if not $objects -}}
{{- fail (printf "the chart has no file %s: it is incomplete" .file) -}}
{{- end -}}
{{- toYaml (dict "objects" $objects) -}}
{{- end -}}

{{/* vidra.print prints .object with the namespace of the release, or .namespace, and the names of the installation. */}}
{{- define "vidra.print" -}}
{{- $suffix := include "vidra.suffix" .root -}}
{{- $namespace := .root.Release.Namespace -}}
{{- with .object.metadata -}}
{{- $_ := set . "name" (print .name $suffix) -}}
{{- if eq "vidra-system" (get . "namespace") -}}
{{- $_ := set . "namespace" $namespace -}}
{{- end -}}
{{- with $.namespace -}}
{{- $_ := set $.object.metadata "namespace" . -}}
{{- end -}}
{{- end -}}
{{- with .object.roleRef -}}
{{- $_ := set . "name" (print .name $suffix) -}}
{{- end -}}
{{- with .object.spec -}}
{{- with .policyName -}}
{{- $_ := set $.object.spec "policyName" (print . $suffix) -}}
{{- end -}}
{{- end -}}
{{- range .object.subjects -}}
{{- if eq .namespace "vidra-system" -}}
{{- $_ := set . "name" (print .name $suffix) -}}
{{- $_ := set . "namespace" $namespace -}}
{{- end -}}
{{- end }}
---
{{ toYaml .object }}
{{- end -}}

{{/* vidra.file prints the objects of .file, with .labels added. */}}
{{- define "vidra.file" -}}
{{- range $object := (include "vidra.load" . | fromYaml).objects -}}
{{- $_ := set $object.metadata "labels" (merge dict ($.labels | default dict) $object.metadata.labels) -}}
{{- include "vidra.print" (dict "root" $.root "object" $object) -}}
{{- end -}}
{{- end -}}

{{/* vidra.suffix is what the names of an installation end with. */}}
{{- define "vidra.suffix" -}}
{{- with .Values.installation }}-{{ . }}{{ end -}}
{{- end -}}

{{/* vidra.infrahub is whether InfrahubSyncs are synced: true or empty. */}}
{{- define "vidra.infrahub" -}}
{{- if kindIs "invalid" .Values.infrahub.enabled -}}
{{- if not .Values.restricted }}true{{ end -}}
{{- else if .Values.infrahub.enabled }}true{{ end -}}
{{- end -}}

{{/* vidra.authors is whether the policy about authors is installed: true or empty. */}}
{{- define "vidra.authors" -}}
{{- if kindIs "invalid" .Values.policies.authors.enabled -}}
{{- if .Values.restricted }}true{{ end -}}
{{- else if .Values.policies.authors.enabled }}true{{ end -}}
{{- end -}}
