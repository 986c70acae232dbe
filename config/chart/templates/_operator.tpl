{{/* vidra.image is the image of the operator, by tag, and by digest if there is one. */}}
{{- define "vidra.image" -}}
{{ .repository }}:{{ .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* vidra.args is a list of the flags of the operator that values set. */}}
{{- define "vidra.args" -}}
{{- $args := list -}}
{{- if .Values.restricted -}}
{{- $args = append $args "--require-service-account" -}}
{{- end -}}
{{- include "vidra.checkNamespaces" . -}}
{{- /* With namespaces, the operator may not read the labels of Namespaces. */}}
{{- $allowed := ternary "vidraresource.infrahub.operators.com/impersonation=allowed" "" (and .Values.restricted (not .Values.namespaces)) -}}
{{- with .Values.impersonation.selector | default $allowed -}}
{{- $args = append $args (print "--impersonation-namespaces=" .) -}}
{{- end -}}
{{- with .Values.eventValues | default (ternary "none" "" .Values.restricted) -}}
{{- $args = append $args (print "--event-values=" .) -}}
{{- end -}}
{{- if not (include "vidra.infrahub" .) -}}
{{- $args = append $args "--infrahub=false" -}}
{{- end -}}
{{- with .Values.namespaces -}}
{{- $args = append $args (print "--namespaces=" (join "," .)) -}}
{{- end -}}
{{- if .Values.infrahub.publish.enabled -}}
{{- if not (include "vidra.infrahub" .) -}}
{{- fail "infrahub.publish.enabled has no effect, because InfrahubSyncs are off: set infrahub.enabled to true, or infrahub.publish.enabled to false" -}}
{{- end -}}
{{- $url := printf "--infrahub-publish-url=http://vidra-infrahub-publish%s.$(POD_NAMESPACE).svc" (include "vidra.suffix" .) -}}
{{- $args = concat $args (list "--infrahub-publish-bind-address=:8083" $url) -}}
{{- end -}}
{{- if .Values.infrahub.webhook.enabled -}}
{{- if not (include "vidra.infrahub" .) -}}
{{- fail "infrahub.webhook.enabled has no effect, because InfrahubSyncs are off: set infrahub.enabled to true, or infrahub.webhook.enabled to false" -}}
{{- end -}}
{{- $args = concat $args (list "--infrahub-webhook-bind-address=:8082" "--infrahub-webhook-key-file=/etc/vidra/infrahub-webhook/key") -}}
{{- end -}}
{{- if .Values.policies.stamp.enabled -}}
{{- $args = append $args "--user-stamps" -}}
{{- end -}}
{{- with .Values.installation -}}
{{- $args = append $args (print "--installation=" .) -}}
{{- end -}}
{{- with .Values.kubeconfigNamespace -}}
{{- $args = append $args (print "--kubeconfig-namespace=" .) -}}
{{- end -}}
{{- range $name, $value := .Values.flags -}}
{{- /* Numbers in a file of values are floating-point numbers. */}}
{{- $text := ternary (int64 $value | toString) (toString $value) (kindIs "float64" $value) -}}
{{- $args = append $args (printf "--%s=%s" $name $text) -}}
{{- end -}}
{{- toYaml $args -}}
{{- end -}}

{{/* vidra.checkNamespaces refuses values that cannot be combined with namespaces. */}}
{{- define "vidra.checkNamespaces" -}}
{{- with .Values.namespaces -}}
{{- if $.Values.impersonation.selector -}}
{{- fail "impersonation.selector cannot be combined with namespaces, because the operator may not read the labels of Namespaces then: remove it, and name the namespaces in impersonation.namespaces" -}}
{{- end -}}
{{- range $.Values.impersonation.namespaces -}}
{{- if not (has . $.Values.namespaces) -}}
{{- fail (printf "impersonation.namespaces has %s, where the operator manages nothing, because namespaces does not have it: add it there, or remove it here" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
