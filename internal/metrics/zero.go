package metrics

// The names below are Apache's, and dashboards query them. Here they stay at zero (and sets empty), because what they
// measure doesn't exist: there is no chain of processors with queues between them, no throttle in front of it, no
// cache of whole replies, no cleaner of dead watchers (a connection's watches are removed with it), no second election
// protocol, and peers speak raft.

// zeroCounters are the counters that stay at zero.
var zeroCounters = []string{
	// transfers to a learner
	"diff_count", "snap_count",
	// cleaner of dead watchers
	"add_dead_watcher_stall_time", "dead_watchers_queued", "dead_watchers_cleared",
	// caches of replies
	"response_packet_cache_hits", "response_packet_cache_misses", "response_packet_get_children_cache_hits",
	"response_packet_get_children_cache_misses",
	// processors and what is outstanding between them
	"prep_processor_request_queued", "outstanding_changes_queued", "outstanding_changes_removed", "request_commit_queued",
	"sync_processor_request_queued", "skip_learner_request_to_next_processor_count",
	"requests_not_forwarded_to_commit_processor",
	// learners
	"revalidate_count", "learner_proposal_received_count", "learner_commit_received_count",
	"quit_leading_due_to_disloyal_voter",
	// throttles
	"connection_drop_count", "throttled_ops", "stale_replies", "request_throttle_wait_count",
	// a replica that differs stops, so nothing is left to count
	"digest_mismatches_count",
	"cnxn_closed_without_zk_server_running",
	// a check is only part of a multi, which counts as one
	"op_count_check",
}

// zeroBasic are the basic summaries that stay at zero.
var zeroBasic = []string{
	"follower_sync_time", "observer_sync_time", "connection_token_deficit", "inflight_snap_count",
	"inflight_diff_count",
	"prep_processor_queue_size", "prep_process_time", "proposal_process_time", "leader_unavailable_time",
	"requests_in_session_queue", "pending_session_queue_size", "reads_after_write_in_session_queue",
	"reads_issued_from_session_queue",
	"session_queues_drained", "time_waiting_empty_pool_in_commit_processor_read_ms",
	"write_batch_time_in_commit_processor",
	"concurrent_request_processing_in_commit_processor", "read_commit_proc_req_queued", "write_commit_proc_req_queued",
	"commit_commit_proc_req_queued", "read_commit_proc_issued", "write_commit_proc_issued", "commit_process_time",
	"sync_processor_queue_size", "sync_process_time", "netty_queued_buffer_capacity",
	"learner_request_processor_queue_size",
	"socket_closing_time",
}

// zeroAdvanced are the summaries with percentiles that stay at zero.
var zeroAdvanced = []string{
	"dead_watchers_cleaner_latency", "prep_processor_queue_time_ms", "close_session_prep_time", "read_commitproc_time_ms",
	"write_commitproc_time_ms", "local_write_committed_time_ms", "server_write_committed_time_ms",
	"om_proposal_process_time_ms",
	"om_commit_process_time_ms", "read_final_proc_time_ms", "write_final_proc_time_ms", "proposal_ack_creation_latency",
	"commit_propagation_latency", "sync_processor_queue_and_flush_time_ms", "sync_processor_queue_time_ms",
	"quorum_ack_latency",
	"request_throttle_queue_time_ms", "jvm_pause_time_ms",
}

// zeroBasicSets and zeroAdvancedSets are sets of summaries that stay empty.
var (
	zeroBasicSets    = []string{"learner_handler_qp_size"}
	zeroAdvancedSets = []string{"learner_handler_qp_time_ms", "ack_latency"}
)

// RegisterZeros registers Apache's metrics that no server updates.
func (r *Registry) RegisterZeros() {
	for _, name := range zeroCounters {
		r.Counter(name)
	}
	for _, name := range zeroBasic {
		r.Summary(name, Basic)
	}
	for _, name := range zeroAdvanced {
		r.Summary(name, Advanced)
	}
	for _, name := range zeroBasicSets {
		r.SummarySet(name, Basic)
	}
	for _, name := range zeroAdvancedSets {
		r.SummarySet(name, Advanced)
	}
}
