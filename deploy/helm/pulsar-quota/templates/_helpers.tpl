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

{{/* What the names of Pulsar's chart begin with, as its own templates have it (pulsar.fullname). */}}
{{- define "pulsar-quota.pulsar" -}}
{{- $release := .Values.pulsar.release -}}
{{- $usual := contains "pulsar" $release | ternary $release (printf "%s-pulsar" $release) -}}
{{- .Values.pulsar.fullname | default $usual -}}
{{- end }}

{{/* The name of the sidecars of this chart's own: a label of their pods adds eleven letters, and has 63 at most. */}}
{{- define "pulsar-quota.statefulSet" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/* The port of gates that listen with TLS, or nothing. */}}
{{- define "pulsar-quota.tlsPort" -}}
{{- with .Values.config.gate_tls_listen -}}
{{- splitList ":" . | last -}}
{{- end -}}
{{- end }}

{{/* The labels of the pods in which sidecars run. */}}
{{- define "pulsar-quota.sidecars" -}}
{{- if eq .Values.enforcement "native" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- else -}}
{{- include "pulsar-quota.brokers" . }}
{{- end }}
{{- end }}

{{/* The loopback address as URLs have it. */}}
{{- define "pulsar-quota.loopback" -}}
{{- $address := trimAll "[]" .Values.loopback -}}
{{- contains ":" $address | ternary (printf "[%s]" $address) $address -}}
{{- end }}

{{/* The same in a service URL, where Pulsar's client takes no IPv6 address. */}}
{{- define "pulsar-quota.loopbackName" -}}
{{- contains ":" .Values.loopback | ternary "localhost" .Values.loopback -}}
{{- end }}

{{/* All addresses of a pod: of both families, where loopback is IPv6's. */}}
{{- define "pulsar-quota.everywhere" -}}
{{- contains ":" .Values.loopback | ternary "[::]" "0.0.0.0" -}}
{{- end }}

{{/* A value as TOML. */}}
{{- define "pulsar-quota.value" -}}
{{- if kindIs "map" . -}}
  {{- $pairs := list -}}
  {{- range $key, $value := . -}}
    {{- $pairs = append $pairs (printf "%s = %s" ($key | toJson) (include "pulsar-quota.value" $value)) -}}
  {{- end -}}
  { {{ join ", " $pairs }} }
{{- else if kindIs "slice" . -}}
  {{- $items := list -}}
  {{- range . -}}
    {{- $items = append $items (include "pulsar-quota.value" .) -}}
  {{- end -}}
  [{{ join ", " $items }}]
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
  {{- /* Helm reads every number of a file as a float. */ -}}
  {{ int64 . }}
{{- else -}}
  {{ toJson . }}
{{- end -}}
{{- end }}

{{/* The configuration of all sidecars: what the values of this chart make of it, then `config` over it. */}}
{{- define "pulsar-quota.configuration" -}}
{{- $own := dict
  "broker_id" "pod"
  "enforcement_path" .Values.enforcement
  "admin_listen" (printf "%s:%v" (include "pulsar-quota.everywhere" .) .Values.ports.admin)
  "bus_topics" .Values.busTopics
  "zookeeper_servers" (.Values.zookeeperServers | default (printf "%s-zookeeper:2181" (include "pulsar-quota.pulsar" .)))
  "super_user_roles" .Values.auth.superUserRoles
-}}
{{- $keys := "/etc/pulsar-quota/keys" -}}
{{- if .Values.auth.asymmetric -}}
  {{- $_ := set $own "auth_public_key_files" (list (printf "%s/%s" $keys .Values.auth.secretKey)) -}}
{{- else -}}
  {{- $_ := set $own "auth_secret_key_file" (printf "%s/%s" $keys .Values.auth.secretKey) -}}
{{- end -}}
{{- if .Values.auth.brokers -}}
  {{- $_ := set $own "bus_token_file" (printf "%s/broker.token" $keys) -}}
  {{- $_ := set $own "broker_token_file" (printf "%s/broker.token" $keys) -}}
{{- end -}}
{{- if eq .Values.enforcement "native" -}}
  {{- $brokers := printf "%s-broker" (include "pulsar-quota.pulsar" .) -}}
  {{- $_ := set $own "broker_web_url" (printf "http://%s:%v" $brokers .Values.ports.web) -}}
  {{- $_ := set $own "bus_service_url" (printf "pulsar://%s:%v" $brokers .Values.ports.broker) -}}
{{- else -}}
  {{- $loopback := include "pulsar-quota.loopback" . -}}
  {{- $_ := set $own "gate_listen" (printf "%s:%v" (include "pulsar-quota.everywhere" .) .Values.ports.gate) -}}
  {{- $_ := set $own "gate_upstream" (printf "%s:%v" $loopback .Values.ports.upstream) -}}
  {{- $_ := set $own "broker_web_url" (printf "http://%s:%v" $loopback .Values.ports.web) -}}
  {{- $_ := set $own "bus_service_url" (printf "pulsar://%s:%v" (include "pulsar-quota.loopbackName" .) .Values.ports.broker) -}}
{{- end -}}
{{- range $key, $value := mergeOverwrite $own (deepCopy .Values.config) -}}
{{- if not (kindIs "invalid" $value) -}}
{{ $key }} = {{ include "pulsar-quota.value" $value }}
{{ end -}}
{{- end -}}
{{- end }}
