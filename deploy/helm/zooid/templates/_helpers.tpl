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

{{- /* What follows the first semicolon of a server line: a plain port, or a port for TLS behind a second semicolon. */ -}}
{{- define "zooid.clientPart" -}}
{{- if .Values.tls.enabled }};2281{{ else }}2181{{ end -}}
{{- end -}}

{{- /* The host of the pod of an index; takes the root and the index. */ -}}
{{- define "zooid.host" -}}
{{- $root := index . 0 -}}
{{- $name := include "zooid.name" $root -}}
{{- $name }}-{{ index . 1 }}.{{ $name }}-headless.{{ $root.Release.Namespace }}.svc.{{ $root.Values.clusterDomain -}}
{{- end -}}

{{- /* zoo.cfg but for the server lines: servers restart when it changes, and not when the ensemble grows. */ -}}
{{- define "zooid.settings" -}}
{{- if and .Values.tls.enabled (not .Values.tls.secretName) }}{{ fail "tls.secretName: name the secret with tls-combined.pem and ca.crt" }}{{ end -}}
dataDir=/data
{{- range $key, $value := .Values.config }}
{{ $key }}={{ if kindIs "float64" $value }}{{ if eq $value (floor $value) }}{{ $value | int64 }}{{ else }}{{ $value }}{{ end }}{{ else }}{{ $value }}{{ end }}
{{- end }}
standaloneEnabled=false
reconfigEnabled=true
# For zooid health and zooid drain, in the pod alone.
admin.enableServer=true
admin.serverAddress=127.0.0.1
quorumListenOnAllIPs=true
quorum.secretFile=/etc/zooid/ensemble-secret
{{- if .Values.tls.enabled }}
secureClientPort=2281
ssl.keyStore.location=/etc/zooid/tls/tls-combined.pem
ssl.keyStore.type=PEM
ssl.trustStore.location=/etc/zooid/tls/ca.crt
ssl.trustStore.type=PEM
ssl.clientAuth={{ .Values.tls.clientAuth }}
sslQuorum=true
ssl.quorum.keyStore.location=/etc/zooid/tls/tls-combined.pem
ssl.quorum.keyStore.type=PEM
ssl.quorum.trustStore.location=/etc/zooid/tls/ca.crt
ssl.quorum.trustStore.type=PEM
{{- end }}
{{- if .Values.metrics.enabled }}
metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider
metricsProvider.httpPort={{ .Values.metrics.port }}
{{- end }}
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

{{- define "zooid.ownDigest" -}}
{{- if hasKey .Values.config "DigestAuthenticationProvider.superDigest" }}true{{ end -}}
{{- end -}}

{{- /* Not empty if the release changes the ensemble's members itself: it knows the superuser's password. */ -}}
{{- define "zooid.reconfigs" -}}
{{- if and .Values.reconfig.enabled (or .Values.superuserPassword (not (include "zooid.ownDigest" .))) }}true{{ end -}}
{{- end -}}

{{- define "zooid.superuser" -}}
{{- if .Values.superuserPassword -}}
{{- .Values.superuserPassword -}}
{{- else -}}
{{- $have := lookup "v1" "Secret" .Release.Namespace (include "zooid.name" .) -}}
{{- if and $have $have.data (index $have.data "superuser") }}{{ index $have.data "superuser" | b64dec | trimPrefix "digest:super:" }}{{ else }}{{ randAlphaNum 48 }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* What zooid digest super:PASSWORD prints: the base64 of a SHA-1, which is 40 hexadecimal digits; three of them are two characters. */ -}}
{{- define "zooid.superDigest" -}}
{{- $alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" -}}
{{- $hex := printf "%s00" (printf "super:%s" . | sha1sum) -}}
{{- $text := "" -}}
{{- range $i := until 14 -}}
{{- $bits := printf "0x%s" (substr (mul 3 $i | int) (add 3 (mul 3 $i) | int) $hex) | int -}}
{{- range $six := list (div $bits 64) (mod $bits 64) }}{{ $text = printf "%s%s" $text (substr (int $six) (add 1 $six | int) $alphabet) }}{{ end -}}
{{- end -}}
super:{{ substr 0 27 $text }}=
{{- end -}}
