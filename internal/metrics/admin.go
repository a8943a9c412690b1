package metrics

// Admin holds Apache's metrics of the admin server.
type Admin struct {
	SnapshotsFailed, SnapshotsTooSoon *Counter
	RestoresFailed, RestoresTooSoon   *Counter // a body that is no snapshot counts as failed
	Restore                           *Summary // how long restores took that succeeded, ms
	Insecure                          *Counter // connections without TLS to a port that accepts both
}

// Admin registers and returns the metrics of the admin server.
func (r *Registry) Admin() *Admin {
	return &Admin{
		SnapshotsFailed: r.Counter("snapshot_error_count"), SnapshotsTooSoon: r.Counter("snapshot_rate_limited_count"),
		RestoresFailed: r.Counter("restore_error_count"), RestoresTooSoon: r.Counter("restore_rate_limited_count"),
		Restore: r.Summary("restore_time", Basic), Insecure: r.Counter("insecure_admin_count"),
	}
}
