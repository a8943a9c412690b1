// Package bench is `zooid bench`: a load generator for any server that speaks
// ZooKeeper's client protocol, and a comparison of several of them.
//
// It speaks the raw protocol, so that it costs little beside the server it measures
// (both usually share one machine) and no client library favours one of two
// servers. It is cheap because requests are encoded once and copied, one read takes
// in as many replies as have arrived, one write answers them with as many new
// requests, and nothing is allocated per operation. Of the remaining cost, half is
// the kernel's sending (on one machine that includes the receiver's side of TCP), a
// sixth its receiving, a quarter the runtime's waiting for connections. An epoll
// set of its own instead of the runtime's was tried and cost a third more.
//
// # Map
//
//	main.go        the command line: which form is meant, exit codes
//	options.go     flags                    help.go      texts of -h
//	wire/          connections, and requests encoded in advance
//	load.go        work on many connections, by either loop
//	closed.go      closed loop: connections x outstanding
//	open.go        open loop: a fixed rate, latency from the intended send time
//	latency.go     histograms               result.go    what one trial found
//	scenario.go    the table of scenarios   trial.go      one run, and its resources
//	parallel.go    many connections at once remove.go     what is removed afterwards
//	steady.go      get, set, mixed, create, delete, multi, children, load
//	bulk.go        many znodes, in directories
//	watch.go  sessions.go  storm.go  failover.go  restart.go  snapshot.go: one scenario each
//	flat.go        does the cost of an operation depend on how much the server holds?
//	workload.go    running ClickHouse's keeper-bench files; keeperbench/ reads them
//	spec.go        servers as named on the command line; servers/ starts and measures them
//	floor.go       the command of floor/: sockets, framing and a synced log, nothing else
//	profile.go     the scenarios and sizes a comparison runs
//	compare.go     interleaved rounds       ratio.go     medians and ratios
//	page.go        results of several comparisons against goals.go
//	table.go       aligned text and Markdown             progress.go  live line
//
// # What is counted
//
// An operation is one request and its reply; a multi is one operation. A reply
// with an error code is an operation and an error. Latency runs from the write
// that carried the request to the read that brought the reply: the replies that
// one read brings in have all arrived by the same instant.
package bench
