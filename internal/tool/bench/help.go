package bench

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

const helpIntro = `zooid bench: load any server that speaks ZooKeeper's client protocol, and measure.

usage:
  zooid bench SCENARIO... [flags]           one or several scenarios, one after the other
  zooid bench workload FILE... [flags]      ClickHouse keeper-bench files, as they are
  zooid bench compare -a SERVER -b SERVER   two or three servers, interleaved rounds
  zooid bench page FILE...                  what 'compare -json' printed, against the goals
  zooid bench floor [flags]                 what sockets and a disk cost without a server

scenarios:
`

const helpExamples = `
examples:
  zooid bench get                                  16 connections, 16 outstanding each, 10 s
  zooid bench get set -conns 1 -depth 1            what one patient client sees
  zooid bench mixed -reads 90 -pid 4711            also the server's CPU time and memory
  zooid bench set -rate 20000 -time 1m             open loop: latency at 20 000 writes a second
  zooid bench sessions -keys 10000 -time 60s       10 000 idle sessions: memory and pings
  zooid bench failover -servers a:2181,b:2181,c:2181 -kill 4711
  zooid bench restart -start 'exec zooid server {config}'
  zooid bench failover -members 3 -start 'exec zooid server {config}'
  zooid bench flat-znodes -root /b -start 'exec zooid server {config}'

A closed loop keeps -conns x -depth requests outstanding; it finds throughput, and its
latency is that of a saturated server. An open loop (-rate) sends by the clock; its latency
counts from when each request was due, so a stall is charged to every request it held up.
A connection writes every 0.5 ms at most; what falls due meanwhile waits, which counts too.

Figures: an operation is a request with its reply (watch: an event heard, and the watch set
again; sessions, storm: a session). server µs/op and server MiB are CPU time and resident
memory of the -pid processes, client µs/op the generator's own CPU time: together they share
the machine. sent_late is by how much the generator itself missed its schedule.

All work happens below a znode of its own (-root plus a random ending), removed afterwards.
Exit codes: 0 done, 1 failed, 2 wrong command line.

'zooid bench SCENARIO -h' shows the flags with that scenario's defaults.
'zooid bench compare -h' shows how to name servers, and the profiles.
`

const helpWorkload = `zooid bench workload: run ClickHouse keeper-bench files, unchanged.

usage: zooid bench workload FILE.yaml... [flags]

Read are concurrency, iterations, timelimit, continue_on_error(s), connections, setup and
generator with create, set, get, list and multi. -servers overrides the file's hosts, -time
its timelimit, -ops its iterations. keeper-bench has 'concurrency' threads with one request
each on shared connections; the same number of requests is outstanding here, spread evenly
over the connections. Nodes of setup are removed first and afterwards, as keeper-bench does:
mind what they are called. Keys without meaning here are refused, with the reason.

flags:
`

const helpCompare = `zooid bench compare: the same work on two or three servers, in interleaved rounds.

usage: zooid bench compare -a SERVER -b SERVER [-c SERVER] [-floor] [flags]

A SERVER is one of
  HOST:PORT[,HOST:PORT][@PID[,PID]]   running already; with process ids, its cost is measured
  a command line                      run by sh for every trial, in a fresh directory;
                                      {config} is a zoo.cfg made for it; or {port} is a free
                                      client port, {port2} to {port9} more free ports, {dir}
                                      an empty directory. Profiles of an ensemble run it
                                      once per server, and need {config}
A started server is ready when it answers its first read. Each round runs every profile on
A, then B, then C, each on a server of its own: what one trial leaves behind (heap, log,
compiled code) is no part of the next. Figures are medians of the rounds; ratios are taken
within a round, then the median, with the least and the greatest.

examples:
  zooid bench compare -names zooid,apache -floor \
    -a 'exec zooid server {config}' -warms 1s,5s,1s \
    -b 'exec java -cp zookeeper.jar org.apache.zookeeper.server.quorum.QuorumPeerMain {config}'
  zooid bench compare -a db1:2181@4711 -b db2:2181 -profiles get-16x16,set-1x1 -quick

profiles:
`

const helpPage = `zooid bench page: the goals of docs/performance.md and how far they are met, in Markdown.

usage: zooid bench page FILE...
       zooid bench page -chart docs/performance.md

Each FILE is what 'zooid bench compare -json' printed, of any profiles; where several have
the same profile the last one counts. The first server named is the one asked; the others
are called apache and floor. A goal is judged by the median of its rounds. -chart draws
a page's table as SVG.
`

const helpFloor = `zooid bench floor: not a server, but what none can beat by much.

usage: zooid bench floor [flags]

It answers reads with canned replies, and appends writes to one file with one fdatasync for
all that came in meanwhile. It keeps no tree and no sessions; of watches it knows those that
getData leaves and setData fires. The file is given room before it is written, as logs are; with
-filled it has 64 MiB, written beforehand and then over and over again, which costs a disk half.

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
