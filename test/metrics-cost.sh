#!/bin/sh
# What metrics cost: interleaved rounds of the same work on this checkout's server, whose endpoint for Prometheus is read each
# five seconds, and on the same server built without counters, histograms, summaries and samples (test/cost.sh says what it
# prints, and when it fails). The machine must be quiet. Arguments go to zooid bench compare:
#
#	test/metrics-cost.sh -rounds 25 -time 1s
#	LEAST=0 test/metrics-cost.sh -rounds 1 -time 1s    # that it works
set -eu
cd "$(dirname "$0")/.."
: "${LEAST:=0.98}"
dir=$(mktemp -d)
trap 'stop; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

. test/overlay.sh
. test/cost.sh
without internal/metrics/metrics.go 's/{ c\.n\.Add(n) }/{}/' 's/{ c\.n\.Add(1) }/{}/'
without internal/metrics/histogram.go 's/^func (h \*Histogram) Observe(.*{$/&\n\treturn/'
without internal/metrics/summary.go 's/^func (s \*Summary) ObserveMany(.*{$/&\n\treturn/'
without internal/busiest/sampler.go 's/^func (s \*Sampler) Take(.*{$/&\n\treturn 0/'

fits
CGO_ENABLED=0 go build -trimpath -pgo=cmd/zooid/load.pgo -o "$dir/with" ./cmd/zooid
CGO_ENABLED=0 go build -trimpath -pgo=cmd/zooid/load.pgo -overlay "$(overlay)" -o "$dir/without" ./cmd/zooid
serve without "${PORT:-7996}"
without=$started
metrics=$((${PORT:-7996} + 2))
serve with "$((${PORT:-7996} + 1))" metricsProvider.httpHost=127.0.0.1 metricsProvider.httpPort=$metrics \
	metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider
(while sleep 5; do curl -fs -o /dev/null "http://127.0.0.1:$metrics/metrics"; done) &
servers="$servers $!"
compare "$started" "$without" get-16x16,set-16x16,mixed-16x16 "$@"
