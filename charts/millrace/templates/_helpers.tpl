{{- /* Names and labels, in one place. */}}

{{- define "millrace.name" -}}
{{- $release := ternary .Release.Name (printf "%s-millrace" .Release.Name) (contains "millrace" .Release.Name) -}}
{{ $release | trunc 40 | trimSuffix "-" }}-operator
{{- end }}

{{- define "millrace.podAccess" -}}
{{ include "millrace.name" . }}-{{ .Release.Namespace }}-pod-access
{{- end }}

{{- define "millrace.namespaceAccess" -}}
{{ include "millrace.name" . }}-{{ .Release.Namespace }}-namespace-access
{{- end }}

{{- define "millrace.shareAccess" -}}
{{ include "millrace.name" . }}-{{ .Release.Namespace }}-share-access
{{- end }}

{{- define "millrace.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "millrace.selector" -}}
app.kubernetes.io/name: millrace
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "millrace.monitoringLabels" -}}
{{ include "millrace.labels" . }}
{{- with .Values.monitoring.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The section of an alert on the page that monitoring.runbookUrl names. */}}
{{- define "millrace.runbook" -}}
{{- with (index . 0).Values.monitoring.runbookUrl }}
            runbook_url: {{ printf "%s#%s" . (index $ 1 | lower) | quote }}
{{- end }}
{{- end }}

{{- define "millrace.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "millrace.name" .) }}
{{- end }}

{{- /* What the operator may do where it looks after pipelines: exactly the verbs it uses. */}}
{{- define "millrace.rules" -}}
# The kinds themselves. A pipeline makes and prunes the other four; patched itself is only its
# finalizer, and its status through an endpoint of its own.
- apiGroups: [millrace.dev]
  resources: [telemetrypipelines]
  verbs: [get, list, watch, patch]
- apiGroups: [millrace.dev]
  resources: [edgepools, gatewaypools, telemetrytopics, telemetryschemas]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [millrace.dev]
  resources: [telemetrypipelines/status, edgepools/status, gatewaypools/status, telemetrytopics/status, telemetryschemas/status]
  verbs: [patch]
# Needed to set owners that block deletion (OwnerReferencesPermissionEnforcement).
- apiGroups: [millrace.dev]
  resources: [telemetrypipelines/finalizers, edgepools/finalizers, gatewaypools/finalizers]
  verbs: [update]
# What pools are made of.
- apiGroups: [apps]
  resources: [deployments, daemonsets, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.shareAccess.grant }}
# The right of pods that scrape to read their shares, in their own namespace: bindings to one role and
# no other.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [{{ include "millrace.shareAccess" . }}]
  verbs: [bind]
{{- end }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Why pods are not ready, and where to ask them how busy they are
{{- if .Values.tries.enabled }}; and a pod that tries a change of
# image or configuration before any pod of the pool changes{{ end }}.
- apiGroups: [""]
  resources: [pods]
  verbs: [list{{ if .Values.tries.enabled }}, create, delete{{ end }}]
# What those that don't answer use, where the cluster has a metrics API.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
# More memory for running pods, in place.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
# Whether another autoscaler sizes a pool already (KEDA acts through these too).
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
{{- if .Values.discovery.enabled }}
# What scrape targets are found by, for pools that ask for it.
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors, podmonitors, probes, scrapeconfigs]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end }}
{{- if not .Values.secrets.namespaces }}
{{ include "millrace.secretRules" . }}
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "millrace.secretRules" -}}
# The Secrets that specs name, one by one: content is read to hash it and to sign in to Kafka and
# ClickHouse. No list and no watch, so that other Secrets can't be found; a changed Secret is seen
# when its object is looked at again (at least every minute).
{{- /* With secrets.watch it is seen at once, and this role may list them all. */}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get{{ if .Values.secrets.watch }}, list, watch{{ end }}]
{{- if and .Values.discovery.enabled .Values.discovery.secrets }}
# The values that monitors name, in one Secret of the pool. Creation can't be limited to a name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch]
{{- end }}
{{- end }}

{{/* Whether others can reach the console's port: not on loopback. */}}
{{- define "millrace.consolePort" -}}
{{- if and .Values.console.enabled (ne .Values.console.access "portForward") }}true{{ end }}
{{- end }}

{{/* Whether requests with the operator's own traces and logs have headers of a Secret. */}}
{{- define "millrace.otlpHeaders" -}}
{{- with .Values.telemetry.otlp }}{{ if and .endpoint .headersSecretName }}true{{ end }}{{ end }}
{{- end }}

{{/* Whether certificates of a Secret are used for them. */}}
{{- define "millrace.otlpTls" -}}
{{- with .Values.telemetry.otlp }}{{ if and .endpoint .tlsSecretName }}true{{ end }}{{ end }}
{{- end }}

{{/* Whether the operator's pods mount anything. */}}
{{- define "millrace.volumes" -}}
{{- include "millrace.consoleToken" . }}{{ include "millrace.otlpHeaders" . }}{{ include "millrace.otlpTls" . }}
{{- end }}

{{/* Whether the console asks for a token. */}}
{{- define "millrace.consoleToken" -}}
{{- if and .Values.console.enabled (eq .Values.console.access "token") }}true{{ end }}
{{- end }}
