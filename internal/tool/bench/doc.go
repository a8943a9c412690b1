// Package bench implements `zooid bench`: a load generator for any server that speaks ZooKeeper's client protocol, and
// comparisons of servers.
//
// It uses the raw protocol, so that it costs little in comparison with the measured server (both usually share one
// machine), and so that no client library favours one server. It is cheap because requests are encoded once and copied,
// one read takes as many replies as have arrived, one write then sends as many new requests, and nothing is allocated
// per operation. Half of the remaining cost is the kernel's sending (on one machine that includes the receiver's side
// of TCP), a sixth its receiving, and a quarter the runtime's waiting for connections. An epoll set of its own in place
// of the runtime's was tried and cost a third more.
//
// # Map
//
//	main.go        the command line: which form is meant, exit codes
//	options.go     flags                    help.go      texts of -h
//	wire/          connections, and requests encoded in advance
//	load.go        work on many connections, by either loop
//	closed.go      closed loop: connections x unanswered requests
//	open.go        open loop: a fixed rate, latency from the intended send time
//	latency.go     histograms               result.go    the figures of one trial
//	scenario.go    the table of scenarios   trial.go      one run, and its resources
//	parallel.go    many connections at once remove.go     what is removed afterwards
//	steady.go      get, set, mixed, create, delete, multi, children, load
//	bulk.go        many znodes, in directories
//	watch.go  sessions.go  storm.go  failover.go  restart.go  snapshot.go: one scenario each
//	flat.go        whether an operation costs more when the server holds more
//	workload.go    running ClickHouse's keeper-bench files; keeperbench/ reads them
//	spec.go        servers as named on the command line; servers/ starts and measures them
//	floor.go       the command of floor/: only sockets, framing and a synced log
//	profile.go     the scenarios and sizes that a comparison runs
//	compare.go     interleaved rounds       ratio.go     medians and ratios
//	page.go        results of several comparisons against goals.go
//	table.go       aligned text and Markdown             progress.go  live line
//
// # What is counted
//
// An operation is one request and its reply; a multi is one operation. A reply with an error code is an operation and
// an error. Latency is the time from the write with the request to the read with the reply: all replies of one read
// count as arrived at the same time.
package bench
