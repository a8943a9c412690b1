package config

// absentKeys are accepted, with a warning, and have no effect: they are about features that Zooid doesn't have, or
// doesn't have yet, or has without a setting.
func absentKeys() []key {
	return append([]key{
		unused("preAllocSize", asProp, integer,
			"65536", "log segments are allocated as a whole, in sizes that grow up to 64 MiB").in(1, 1<<21-1),
		unused("jute.maxbuffer.extrasize", asProp, javaInt,
			"-1", "the data that servers add to a request does not count toward jute.maxbuffer").in(-1, int32Max),
		unused("largeRequestMaxBytes", asProp, integer,
			"104857600", "the memory account bounds requests of every size; see memory.limit").in(0, int32Max),
		unused("largeRequestThreshold", asProp, integer,
			"-1", "the memory account bounds requests of every size; see memory.limit").in(-1, int32Max),
		unused("connection_throttle_tokens", asProp, integer, "0", whyConnects).in(0, int32Max),
		unused("connection_throttle_fill_time", asProp, millis, "1", whyConnects).in(1, int32Max),
		unused("connection_throttle_fill_count", asProp, integer, "1", whyConnects).in(0, int32Max),
		unused("connection_throttle_freeze_time", asProp, millis, "-1", whyConnects).in(-1, int32Max),
		unused("connection_throttle_drop_increase", asProp, decimal, "0.02", whyConnects).in(0, 1),
		unused("connection_throttle_drop_decrease", asProp, decimal, "0.002", whyConnects).in(0, 1),
		unused("connection_throttle_decrease_ratio", asProp, decimal, "0", whyConnects).in(0, 1),
		unused("connection_throttle_weight_enabled", asProp, boolean, "false", whyConnects),
		unused("connection_throttle_global_session_weight", asProp, integer, "3", whyConnects).in(1, int32Max),
		unused("connection_throttle_local_session_weight", asProp, integer, "1", whyConnects).in(1, int32Max),
		unused("connection_throttle_renew_session_weight", asProp, integer, "2", whyConnects).in(1, int32Max),
		unused("request_throttle_max_requests", asProp, integer, "0", whyThrottle).in(0, int32Max),
		unused("request_throttle_stall_time", asProp, millis, "100", whyThrottle).in(1, int32Max),
		unused("request_throttle_drop_stale", asProp, boolean, "true", whyThrottle),
		unused("request_stale_latency_check", asProp, boolean, "false", whyThrottle),
		unused("request_stale_connection_check", asProp, boolean, "true", whyThrottle),
		unused("request_throttler.shutdownTimeout", asProp, millis,
			"10000", "a server that stops closes its connections at once; sessions continue on other servers").in(0, int32Max),
		unused("throttled_op_wait_time", asProp, millis, "0", whyThrottle).in(0, int32Max),
		unused("maxBatchSize", asProp, integer, "1000", "the log is flushed whenever the disk is free").in(0, int32Max),
		unused("emulate353TTLNodes", asProp, boolean, "false", "trees written by release 3.5.3 are not read"),
		unused("enableEagerACLCheck", asProp, boolean, "false", "permissions are checked once, when a request is applied"),
		unused("connectToLearnerMasterLimit", inFile, integer, "0", whyDial),
		unused("cnxTimeout", asProp, millis, "5000", whyDial).in(1, int32Max),
		unused("quorumCnxnTimeoutMs", asProp, millis, "-1", whyDial).in(-1, int32Max),
		unused("leaderServes", asProp, yesNo, "yes", "the leader serves clients like any other server"),
		unused("tcpKeepAlive", asProp, boolean, "false", "connections between servers carry heartbeats, which detect dead ones"),
		unused("fips-mode", asProp, boolean, "true", "TLS is the same in both modes; the ssl keys configure the verification of host names"),
		unused("java.security.krb5.conf", onlyD, path, "", "a server needs only its keytab; the realm is that of its principal"),
		unused("ssl.authProvider", asProp, text, "x509", "there is one provider for certificates").of("x509"),
	}, endpointKeys()...)
}

// The metrics provider classes of Apache.
const (
	defaultProvider    = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
	nullProvider       = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
	prometheusProvider = PrometheusProvider
)

// endpointKeys are about Apache's HTTP server for metrics.
func endpointKeys() []key {
	return []key{
		unused("metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds", inFile, seconds,
			"60", "summaries cover all values since the start or the word srst; the histograms of zooid_request_stage_seconds show the last minute").
			in(1, int32Max),
		unused("metricsProvider.numWorkerThreads", inFile, integer, "10", whyTuning),
		unused("metricsProvider.maxQueueSize", inFile, integer, "1000000", whyTuning),
		unused("metricsProvider.workerShutdownTimeoutMs", inFile, millis, "1000", whyTuning),
		unused("metricsProvider.httpVersion", asProp, integer, "11", "the endpoint speaks HTTP/1.1, and HTTP/1.0 with callers that use it"),
	}
}
