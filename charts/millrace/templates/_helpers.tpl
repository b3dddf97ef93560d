{{- /* Names and labels, in one place. */}}

{{- define "millrace.chart" -}}
{{ .Values.nameOverride | default "millrace" }}
{{- end }}

{{- define "millrace.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else -}}
{{- $chart := include "millrace.chart" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{ $release | trunc 40 | trimSuffix "-" }}-operator
{{- end }}
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

{{- /* No image is published, so a default would name a repository that is nobody's. */}}
{{- define "millrace.image" -}}
{{- $missing := "image.repository is empty: set it to the repository of the operator's image, for example --set image.repository=REGISTRY/millrace/operator (no image is published yet; README.md builds one)" -}}
{{ required $missing .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "millrace.collectorRepository" -}}
{{- required "collector.imageRepository is empty: set it to the repository of the collectors' images, for example --set collector.imageRepository=REGISTRY/millrace/collector (no image is published yet; README.md builds one)" .Values.collector.imageRepository }}
{{- end }}

{{- /* Whether an object of the Prometheus operator is created: auto creates it if the cluster serves its
       kind. Called with the root, the value and the kind. */}}
{{- define "millrace.monitored" -}}
{{- $root := index . 0 }}{{ $switch := index . 1 | toString }}
{{- $served := $root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" (index . 2)) }}
{{- if or (eq $switch "true") (and (eq $switch "auto") $served) }}true{{ end }}
{{- end }}

{{- define "millrace.selector" -}}
app.kubernetes.io/name: {{ include "millrace.chart" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: millrace
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "millrace.monitoringLabels" -}}
{{ include "millrace.labels" . }}
{{- with .Values.monitoring.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The section of an alert on the page that monitoring.runbookUrl names, or on docsUrl's. */}}
{{- define "millrace.runbook" -}}
{{- $values := (index . 0).Values }}
{{- $page := "" }}
{{- with $values.docsUrl }}{{ $page = printf "%s/alerts.html" (trimSuffix "/" .) }}{{ end }}
{{- with $values.monitoring.runbookUrl | default $page }}
            runbook_url: {{ printf "%s#%s" . (index $ 1 | lower) | quote }}
{{- end }}
{{- end }}

{{- define "millrace.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "millrace.name" .) }}
{{- end }}

{{- /* The operator's rights in watched namespaces: exactly the verbs it uses. */}}
{{- define "millrace.rules" -}}
# The kinds. The operator creates and prunes the other four of a pipeline; of the pipeline itself it
# patches only the finalizer, and the status through its subresource.
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
# Objects of pools.
- apiGroups: [apps]
  resources: [deployments, daemonsets, statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.shareAccess.grant }}
# Lets scraping pods read their shares, in their own namespace: bindings to this role only.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [get, list, create, patch, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [{{ include "millrace.shareAccess" . | quote }}]
  verbs: [bind]
{{- end }}
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Why pods are not ready, and their addresses, to read their load
{{- if .Values.tries.enabled }}; and trial pods, which validate a
# change of image or configuration before any pod of the pool changes{{ end }}.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch{{ if .Values.tries.enabled }}, create, delete{{ end }}]
# Resource use of pods that don't answer, if the cluster has a metrics API.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
# More memory for running pods, in place.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
# Whether another autoscaler sizes a pool (KEDA uses these too).
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
{{- if .Values.discovery.enabled }}
# Discovery of scrape targets, for pools that use it.
- apiGroups: [monitoring.coreos.com]
  resources: [servicemonitors, podmonitors, probes, scrapeconfigs]
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
  verbs: [create, patch{{ if .Values.console.enabled }}, list{{ end }}]
{{- end }}

{{- define "millrace.secretRules" -}}
# The Secrets that specs reference, individually: content is read to hash it and to authenticate to
# Kafka and ClickHouse. No list and no watch, so that other Secrets can't be discovered; a changed
# Secret is noticed at the next reconcile of its object (at least every minute).
{{- /* With secrets.watch it is noticed immediately, and this role may list all of them. */}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get{{ if .Values.secrets.watch }}, list, watch{{ end }}]
{{- if and .Values.discovery.enabled .Values.discovery.secrets }}
# The values that monitors reference, in one Secret of the pool. Creation can't be limited to a name.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch]
{{- end }}
{{- end }}

{{/* Whether the console listens on more than loopback. */}}
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
{{- if or .Values.extraVolumes .Values.extraVolumeMounts .Values.metrics.token.secretName }}true{{ end }}
{{- end }}

{{/* Whether the console requires a token. */}}
{{- define "millrace.consoleToken" -}}
{{- if and .Values.console.enabled (eq .Values.console.access "token") }}true{{ end }}
{{- end }}
