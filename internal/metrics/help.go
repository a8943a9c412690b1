package metrics

import (
	"slices"
	"strings"
)

// zeroHelp is the help text of the metrics of zero.go.
const zeroHelp = "A name of Apache's that dashboards ask for; what it measures doesn't exist here, so it stays at 0."

// helpOf returns the help for Prometheus's users about a metric with a name of Apache's, or one that mntr shows with
// Apache's.
func helpOf(name string) string {
	if help := helpTexts[name]; help != "" {
		return help
	}
	if op, ok := strings.CutPrefix(name, "op_count_"); ok {
		return "Requests of the kind " + op + " that were answered since the start, failed ones too."
	}
	for _, zeros := range [][]string{zeroCounters, zeroBasic, zeroAdvanced, zeroBasicSets, zeroAdvancedSets} {
		if slices.Contains(zeros, name) {
			return zeroHelp
		}
	}
	return name
}

// helpTexts tell what metrics mean. Durations are in ms, sizes in bytes, and counts are since the start or the word
// srst, unless a text says otherwise.
var helpTexts = map[string]string{
	"acl_refused":                        "Writes refused because of what ACLs take: the list is too long, or there are too many different ones.",
	"approximate_data_size":              "Bytes of the paths and data of all znodes.",
	"auth_failed_count":                  "Logins that failed, by TLS or by credentials.",
	"avg_latency":                        "Mean ms from the arrival of a request until its answer.",
	"bytes_received_count":               "Bytes of requests received from clients.",
	"clock_correction_ms":                "Ms that the leader's time is ahead of its clock, because time never goes back.",
	"clock_ms":                           "This server's clock, in ms since 1970.",
	"commit_count":                       "Writes of the ensemble that this server has applied, those that fail included.",
	"connection_drop_probability":        "Share of new connections that are turned away to slow clients down; always 0 here.",
	"connection_rejected":                "Client connections refused because there were too many, altogether or from their address.",
	"connection_request_count":           "Connect requests of clients, for new sessions and for existing ones.",
	"acl_rules_waiting":                  "Schemes whose rule for ids in ACLs isn't in force as this server, or on a leader a member, is configured.",
	"connection_revalidate_count":        "Sessions taken up again on another connection.",
	"dbinittime":                         "Ms that the start took to load snapshot and log.",
	"disk_free_bytes":                    "Free bytes of the file system with the least, of those of the log and of the data.",
	"disk_free_files":                    "Files that the file system can still take; 0 if it doesn't say.",
	"disk_level":                         "How full the disk is: 0 well, 1 it warns, 2 writes are refused.",
	"draining":                           "1 while this server lets others take over (zooid drain).",
	"election_time":                      "Ms for which this server knew no leader, each time it had lost one.",
	"ensemble_auth_fail":                 "Clients that named another ensemble than this one.",
	"ensemble_auth_skip":                 "Clients that named no ensemble, where names are checked.",
	"ensemble_auth_success":              "Clients that named this ensemble.",
	"ephemerals_count":                   "Ephemeral znodes in the tree.",
	"feature_level":                      "Feature level in force: the behaviour that all servers of the ensemble know.",
	"fsync_in_flight_ms":                 "Ms for which the write of the log under way has taken so far; 0 if there is none.",
	"fsynctime":                          "Ms that writes of the log took to reach the disk.",
	"global_sessions":                    "Sessions that all servers know.",
	"insecure_admin_count":               "Calls of the admin server without TLS.",
	"large_requests_rejected":            "Connections closed because a request was larger than jute.maxbuffer.",
	"last_client_response_size":          "Bytes of the last answer.",
	"last_proposal_size":                 "Bytes of the last log entry that this server proposed; -1 before the first.",
	"last_turn_ms":                       "Ms since the server's loop last turned; high values mean that it does nothing.",
	"leader_uptime":                      "Ms since this server became leader.",
	"learners":                           "On the leader: followers and observers that are connected.",
	"local_sessions":                     "Local sessions of this server.",
	"log_awaits_room":                    "1 while a write of the log waits for room on its disk.",
	"logins_throttled":                   "Logins turned away without being judged because too many like them had failed.",
	"looking_count":                      "Times that this server looked for a leader.",
	"max_client_response_size":           "Bytes of the largest answer.",
	"max_file_descriptor_count":          "File descriptors that the process may open.",
	"max_latency":                        "Longest ms from the arrival of a request until its answer.",
	"max_proposal_size":                  "Bytes of the largest log entry that this server proposed.",
	"memory_identities":                  "Bytes of memory.limit that identities and names of ACLs take.",
	"memory_input":                       "Bytes of memory.limit that requests take which haven't arrived whole.",
	"memory_limit":                       "Bytes that this server may use (memory.limit).",
	"memory_output":                      "Bytes of memory.limit that answers take which clients haven't read.",
	"memory_peers":                       "Bytes of memory.limit that connections to other servers take.",
	"memory_records":                     "Bytes of memory.limit that records of failed logins, of namespaces and of the audit take.",
	"memory_refused":                     "Requests and sessions refused because memory was short.",
	"memory_sessions":                    "Bytes of memory.limit that sessions take.",
	"memory_tree":                        "Bytes of memory.limit that znodes take.",
	"memory_unanswered":                  "Bytes of memory.limit that requests take which aren't answered yet.",
	"memory_used":                        "Bytes of memory.limit in use.",
	"memory_watches":                     "Bytes of memory.limit that watches take.",
	"min_client_response_size":           "Bytes of the smallest answer.",
	"min_latency":                        "Shortest ms from the arrival of a request until its answer.",
	"min_proposal_size":                  "Bytes of the smallest log entry that this server proposed.",
	"multi_refused":                      "Transactions refused because they have too many operations, or would do too much work.",
	"node_changed_watch_count":           "Watchers notified of one change of data.",
	"node_children_watch_count":          "Watchers notified of one change of children.",
	"node_created_watch_count":           "Watchers notified of one creation.",
	"node_deleted_watch_count":           "Watchers notified of one deletion.",
	"non_mtls_local_conn_count":          "Connections from this machine without a client's certificate.",
	"non_mtls_remote_conn_count":         "Connections from other machines without a client's certificate.",
	"notifications_refused":              "Connections closed because the notifications for them exceeded their limit.",
	"num_alive_connections":              "Client connections, at present.",
	"op_count_total":                     "Requests of all kinds that were answered since the start, failed ones too.",
	"open_file_descriptor_count":         "File descriptors that the process has open.",
	"outstanding_requests":               "Requests received and not answered yet.",
	"outstanding_tls_handshake":          "TLS handshakes under way.",
	"packets_received":                   "Requests received from clients, pings included.",
	"packets_sent":                       "Answers and notifications sent to clients.",
	"pending_syncs":                      "Syncs of followers that the leader hasn't answered; always 0 here.",
	"propagation_latency":                "Ms from the leader's stamp on an entry until this server has applied it.",
	"proposal_count":                     "Writes that this server has proposed to the ensemble, those that fail included.",
	"proposal_latency":                   "On the leader: ms from its stamp on an entry until it has applied it.",
	"quorum_size":                        "Servers whose votes count.",
	"quota_bytes_limit_per_namespace":    "Limit of bytes below a top-level znode that has a quota.",
	"quota_bytes_usage_per_namespace":    "Bytes in use below a top-level znode that has a quota.",
	"quota_count_limit_per_namespace":    "Limit of znodes below a top-level znode that has a quota.",
	"quota_count_usage_per_namespace":    "Znodes below a top-level znode that has a quota.",
	"quota_exceeded_error_per_namespace": "Writes that a quota has refused, by top-level znode.",
	"read_per_namespace":                 "Bytes of reads, by top-level znode.",
	"readlatency":                        "Ms from the arrival of a read until its answer.",
	"reply_refused":                      "Reads refused because their answer would be larger than clients take.",
	"response_bytes":                     "Bytes of answers and notifications.",
	"restore_error_count":                "Restores by the admin server that failed.",
	"restore_rate_limited_count":         "Restores by the admin server that were refused because the last one was too recent.",
	"restore_time":                       "Ms that restores by the admin server took.",
	"sessionless_connections_expired":    "Connections closed because they began no session in time.",
	"snapshot_error_count":               "Snapshots for the admin server that failed.",
	"snapshot_in_flight_ms":              "Ms for which one operation of the disk for a snapshot's file has been under way; 0 if there is none.",
	"snapshot_rate_limited_count":        "Snapshots for the admin server that were refused because the last one was too recent.",
	"snapshottime":                       "Ms that writing a snapshot took.",
	"stale_requests":                     "Requests whose client had gone before they were proposed or answered.",
	"stale_requests_dropped":             "Stale requests that were not proposed for that.",
	"stale_sessions_expired":             "Sessions that ended because nothing was heard of their clients for their timeout.",
	"startup_snap_load_time":             "Ms that loading the snapshot took at the start.",
	"startup_txns_load_time":             "Ms that applying the log took at the start.",
	"startup_txns_loaded":                "Entries of the log that were applied at the start.",
	"sync_processor_batch_size":          "Requests in one write of the log.",
	"sync_processor_queue_flush_time_ms": "Ms that one write of the log took, with its fsync.",
	"synced_followers":                   "On the leader: followers with a vote that are up to date.",
	"synced_non_voting_followers":        "On the leader: servers that are up to date and not in the membership yet.",
	"synced_observers":                   "On the leader: observers that are up to date.",
	"time_set_back_count":                "Times that this server's clock was set back.",
	"tls_handshake_exceeded":             "Connections closed because too many TLS handshakes were under way.",
	"ttl_node_created_count":             "Znodes with a TTL that were created.",
	"ttl_node_deleted_count":             "Znodes with a TTL that were deleted because their time was over.",
	"unavailable_time":                   "Ms for which this server didn't serve clients, each time it stopped serving.",
	"unrecoverable_error_count":          "Errors that end the server.",
	"unsuccessful_handshake":             "TLS handshakes that failed.",
	"updatelatency":                      "Ms from the arrival of a write until its answer.",
	"uptime":                             "Ms since the process began.",
	"watch_bytes":                        "Bytes of notifications.",
	"watch_count":                        "Watches that clients have set on this server, at present.",
	"write_per_namespace":                "Bytes of writes, by top-level znode.",
	"znode_count":                        "Znodes in the tree.",
	"zooid_identities_expired":           "Connections closed because a credential has expired.",
	"zooid_identities_withdrawn":         "Connections closed because a credential isn't valid any more (auth.recheckSeconds).",
	"jvm_pause_time_ms":                  "Pauses of a Java virtual machine; there is none here, so it stays at 0. go_gc_duration_seconds has Go's.",
	"socket_closing_time":                "Ms that closing sockets took; it isn't measured here and stays at 0.",
	"netty_queued_buffer_capacity":       "Bytes queued in Netty, which isn't used here; memory_output has what clients haven't read.",
	"digest_mismatches_count":            "Replicas that differed from their log's digest; such a server stops, so it stays at 0.",
}
