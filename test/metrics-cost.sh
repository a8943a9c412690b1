#!/bin/sh
# What metrics cost: interleaved rounds of the same work on this checkout's server, whose endpoint for Prometheus is read once a
# second, and on the same server built without counters, histograms, summaries and samples. The ratios are for
# docs/performance.md; the machine must be quiet. Arguments go to zooid bench compare:
#
#	test/metrics-cost.sh -rounds 9 -time 10s
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

. test/overlay.sh
without internal/metrics/metrics.go 's/{ c\.n\.Add(n) }/{}/' 's/{ c\.n\.Add(1) }/{}/'
without internal/metrics/histogram.go 's/^func (h \*Histogram) Observe(.*{$/&\n\treturn/'
without internal/metrics/summary.go 's/^func (s \*Summary) ObserveMany(.*{$/&\n\treturn/'
without internal/busiest/sampler.go 's/^func (s \*Sampler) Take(.*{$/&\n\treturn 0/'

CGO_ENABLED=0 go build -trimpath -o "$dir/with" ./cmd/zooid
CGO_ENABLED=0 go build -trimpath -overlay "$(overlay)" -o "$dir/without" ./cmd/zooid
cat >"$dir/scraped" <<'END'
#!/bin/sh
# scraped ZOOID CONFIG PORT runs a server whose metrics are read once a second until it ends.
printf 'metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\nmetricsProvider.httpHost=127.0.0.1\nmetricsProvider.httpPort=%s\n' "$3" >>"$2"
(
	tries=0
	until curl -fs -o /dev/null "http://127.0.0.1:$3/metrics" || [ $((tries += 1)) -gt 100 ]; do sleep 0.1; done
	while curl -fs -o /dev/null "http://127.0.0.1:$3/metrics"; do sleep 1; done
) >/dev/null 2>&1 &
exec "$1" server "$2"
END
chmod +x "$dir/scraped"
"$dir/with" bench compare -names with,without -profiles get-16x16,set-16x16,mixed-16x16 \
	-a "exec $dir/scraped $dir/with {config} ${METRICSPORT:-7999}" -b "exec $dir/without server {config}" "$@"
