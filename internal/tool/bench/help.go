package bench

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const helpIntro = `zooid bench: generate load on servers that speak ZooKeeper's client protocol, and measure them.

usage:
  zooid bench SCENARIO... [flags]           run scenarios, one after the other
  zooid bench workload FILE... [flags]      run workload files of ClickHouse's keeper-bench
  zooid bench compare -a SERVER -b SERVER   compare two or three servers in interleaved rounds
  zooid bench page FILE...                  judge the output of 'compare -json' by the goals
  zooid bench floor [flags]                 run the cheapest possible server, for comparison

scenarios:
`

const helpExamples = `
examples:
  zooid bench get                                  16 connections, 16 requests on each, for 10 s
  zooid bench get set -conns 1 -depth 1            latency of a client that waits for each reply
  zooid bench mixed -reads 90 -pid 4711            also the server's CPU time and memory
  zooid bench set -rate 20000 -time 1m             open loop: latency at 20 000 writes a second
  zooid bench sessions -keys 10000 -time 60s       10 000 idle sessions: memory and pings
  zooid bench failover -servers a:2181,b:2181,c:2181 -kill 4711
  zooid bench restart -start 'exec zooid server {config}'
  zooid bench failover -members 3 -start 'exec zooid server {config}'
  zooid bench flat-znodes -root /b -start 'exec zooid server {config}'

Without -rate, the load is a closed loop: -conns x -depth requests are always outstanding. It
measures throughput; its latency is that of a saturated server. With -rate, it is an open
loop: requests are sent by the clock, and their latency counts from when they were due, so that
a stall counts for every request that it delayed. A connection writes at most every 0.5 ms;
the wait of requests that become due in between counts, too.

An operation is a request with its reply (watch: an event received and the watch set again;
sessions, storm: a session). server µs/op and server MiB are the CPU time and the resident
memory of the -pid processes, and client µs/op is the CPU time of the generator itself, which
shares the machine with them. sent_late is how late the generator itself was.

The znodes are below a new znode (-root with a random suffix), which is removed at the end.

exit code: 0 done; 1 failed; 2 wrong arguments.

'zooid bench SCENARIO -h' shows the flags with that scenario's defaults.
'zooid bench compare -h' shows how to name servers, and the profiles.
`

const helpWorkload = `zooid bench workload: run unchanged workload files of ClickHouse's keeper-bench.

usage: zooid bench workload FILE.yaml... [flags]

It supports the keys concurrency, iterations, timelimit, continue_on_error(s), connections,
setup, and generator with create, set, get, list and multi; other keys are an error. -servers
overrides the hosts in the file, -time its timelimit and -ops its iterations. keeper-bench has
as many threads as 'concurrency' says, each with one request outstanding on a shared
connection. Here, the same number of requests is outstanding, spread evenly over the
connections. As in keeper-bench, the znodes named in setup are removed before and after the
run, so make sure that no other data is there.

flags:
`

const helpCompare = `zooid bench compare: run the same load on two or three servers, in interleaved rounds.

usage: zooid bench compare -a SERVER -b SERVER [-c SERVER] [-floor] [flags]

A SERVER is one of
  HOST:PORT[,HOST:PORT][@PID[,PID]]   a running server; with process ids, its CPU time and
                                      memory are measured
  a command line                      run by sh for every trial, in a new directory. It must
                                      contain {config}, the path of a zoo.cfg made for it, or
                                      {port}, a free client port, and may contain {port2} to
                                      {port9}, more free ports, and {dir}, an empty directory.
                                      Profiles of an ensemble run it once for each server, and
                                      need {config}
A started server is ready when it answers its first read. Each round runs every profile on A,
then B, then C, and every second round in the reverse order. Each trial starts a new server, so
that what an earlier trial has left behind (heap, log, compiled code) doesn't count. Figures are
medians of the rounds. A ratio is the median of the rounds' ratios, with the smallest and the
largest.

examples:
  zooid bench compare -names zooid,apache -floor \
    -a 'exec zooid server {config}' -warms 1s,5s,1s \
    -b 'exec java -cp zookeeper.jar org.apache.zookeeper.server.quorum.QuorumPeerMain {config}'
  zooid bench compare -a db1:2181@4711 -b db2:2181 -profiles get-16x16,set-1x1 -quick

profiles:
`

const helpPage = `zooid bench page: judge measurements by the goals of docs/performance.md, in Markdown.

usage: zooid bench page FILE...
       zooid bench page -chart docs/performance.md

Each FILE is output of 'zooid bench compare -json'; for a profile in several files, the last
one counts. The first server is judged; the others must be named apache and floor. A goal is
judged by the median of its rounds. -chart draws the table of a page as SVG.
`

const helpFloor = `zooid bench floor: run the cheapest possible server, as a lower bound for others.

usage: zooid bench floor [flags]

It answers reads with constant replies, and appends writes to a file, with one fdatasync for all
that have arrived since the last one. It has no tree and no sessions, and supports only the
watches set by getData and fired by setData. Space for the file is allocated in advance, as for
logs. With -filled, the file is 64 MiB that were written in advance and are overwritten in turn,
which halves the cost on some disks.

flags:
`

// printHelp writes the general help.
func printHelp(w io.Writer) {
	fmt.Fprint(w, helpIntro)
	for _, s := range scenarios() {
		fmt.Fprintf(w, "  %-13s %s\n", s.name, s.about)
	}
	fmt.Fprint(w, helpExamples)
}

// printScenarioHelp writes the help of one scenario with its defaults.
func printScenarioHelp(w io.Writer, s scenario) {
	fmt.Fprintf(w, "zooid bench %s: %s.\n\nusage: zooid bench %s [flags]\n\nflags:\n", s.name, s.about, s.name)
	var o options
	fs := o.flags(s.name)
	if err := fs.Parse(s.defaults); err != nil {
		panic("bench: a scenario's own defaults don't parse: " + err.Error())
	}
	printFlags(w, fs)
}

// printFlags writes one line per flag: name, value, meaning, current value.
func printFlags(w io.Writer, fs *flag.FlagSet) {
	fs.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		if f.Value.String() != "" && f.Value.String() != "0" && f.Value.String() != "false" {
			usage += fmt.Sprintf(" (%s)", f.Value)
		}
		fmt.Fprintf(w, "  %-22s %s\n", strings.TrimSpace("-"+f.Name+" "+value), usage)
	})
}
