{{- define "tsdb.name" -}}
{{- printf "%s-operator" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "tsdb.serviceAccount" -}}
{{- default (include "tsdb.name" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "tsdb.labels" -}}
app.kubernetes.io/name: tsdb-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tsdb.selector" -}}
app.kubernetes.io/name: tsdb-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Argument: list of the root and one of .Values.images. */}}
{{- define "tsdb.image" -}}
{{- $root := index . 0 -}}{{- $image := index . 1 -}}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) -}}
{{- end -}}

{{- define "tsdb.rules" -}}
- apiGroups: [tsdb.io]
  resources: [tsdbclusters, tsdbnamespaces]
  verbs: [get, list, watch, patch]
- apiGroups: [tsdb.io]
  resources: [tsdbclusters/status, tsdbnamespaces/status]
  verbs: [get, patch]
- apiGroups: [tsdb.io]
  # Owner references with blockOwnerDeletion need it where that admission is on.
  resources: [tsdbclusters/finalizers, tsdbnamespaces/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  # Whose pods of coordinators are that are older than their TSDBCluster.
  resources: [replicasets]
  verbs: [get]
- apiGroups: ['']
  resources: [services, configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: ['']
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: ['']
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: ['']
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: ['']
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [cronjobs, jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: ['']
  # Whether it is on its way out, and takes its clusters with it.
  resources: [namespaces]
  verbs: [get]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch]
{{- if .Values.operator.readSecrets }}
- apiGroups: ['']
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- end -}}
