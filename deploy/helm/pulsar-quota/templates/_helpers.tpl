{{- define "pulsar-quota.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "pulsar-quota.brokers" -}}
{{- with .Values.pulsar.labels }}
{{- toYaml . }}
{{ end -}}
release: {{ .Values.pulsar.release }}
component: broker
{{- end }}
