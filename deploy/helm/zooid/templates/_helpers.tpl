{{- define "zooid.name" -}}
{{- if contains "zooid" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-zooid" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end -}}

{{- define "zooid.selector" -}}
app.kubernetes.io/name: zooid
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zooid.labels" -}}
{{ include "zooid.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "zooid.clientPort" -}}
{{- if .Values.tls.enabled }}2281{{ else }}2181{{ end -}}
{{- end -}}

{{- define "zooid.secret" -}}
{{- if .Values.ensembleSecret -}}
{{- if lt (len .Values.ensembleSecret) 20 }}{{ fail "ensembleSecret: at least 20 characters are needed" }}{{ end -}}
{{- .Values.ensembleSecret -}}
{{- else -}}
{{- $have := lookup "v1" "Secret" .Release.Namespace (include "zooid.name" .) -}}
{{- if and $have $have.data (index $have.data "ensemble-secret") }}{{ index $have.data "ensemble-secret" | b64dec }}{{ else }}{{ randAlphaNum 48 }}{{ end -}}
{{- end -}}
{{- end -}}
