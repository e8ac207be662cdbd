{{/* The name of all objects. The operator's listener has "-ops" behind it. */}}
{{- define "minitill.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "minitill.selector" -}}
app.kubernetes.io/name: minitill
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "minitill.labels" -}}
{{ include "minitill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{/* What a container may not do. */}}
{{- define "minitill.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "minitill.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "minitill.masterKey" -}}
- name: MINITILL_SECRETS__MASTER_KEY
  valueFrom: { secretKeyRef: { name: {{ .Values.secret.name }}, key: {{ .Values.secret.masterKeyKey }} } }
{{- end }}
