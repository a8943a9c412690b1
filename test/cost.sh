# Read by scripts that measure what some of the server's code costs: two servers, $dir/with and $dir/without, run side by side,
# and get the same work in turns of a second or so. That finds differences of a percent: the machine changes more slowly than
# the turns do, and both servers have been running equally long.

# serve NAME PORT [LINE...] starts $dir/NAME on a client port, with further lines in its zoo.cfg, and sets started to what
# zooid bench compare calls it.
servers=
serve() {
	name=$1
	port=$2
	shift 2
	mkdir "$dir/$name.data"
	printf '%s\n' "dataDir=$dir/$name.data" clientPortAddress=127.0.0.1 "clientPort=$port" tickTime=2000 maxClientCnxns=0 \
		admin.enableServer=false "$@" >"$dir/$name.cfg"
	"$dir/$name" server "$dir/$name.cfg" >"$dir/$name.log" 2>&1 &
	servers="$servers $!"
	started=127.0.0.1:$port@$!
	tries=0
	until "$dir/$name" health "$dir/$name.cfg" >/dev/null 2>&1; do
		if [ $((tries += 1)) -gt 100 ]; then
			cat "$dir/$name.log" >&2
			return 1
		fi
		sleep 0.1
	done
}

# stop ends what serve has started. It ends with success.
stop() {
	for server in $servers; do
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	done
	servers=
}

# compare WITH WITHOUT PROFILES [FLAG...] prints medians, with the least and the greatest, of the ratios within a round:
# operations per second with / without, and processor time for each without / with, so that 1 is no cost and 0.98 are two
# percent. It fails if one of those of all work is below $LEAST.
compare() {
	with=$1
	without=$2
	profiles=$3
	shift 3
	"$dir/with" bench compare -json -names with,without -profiles "$profiles" -a "$with" -b "$without" "$@" >"$dir/trials"
	awk -v least="$LEAST" '
function field(name,   at) { # of a line of JSON
	if (!match($0, "\"" name "\":")) return ""
	at = substr($0, RSTART + RLENGTH)
	sub(/[,}].*/, "", at)
	gsub(/"/, "", at)
	return at
}
function show(work, list, n,   i, j, v, x) {
	split(list, v, " ")
	for (i = 2; i <= n; i++) # by insertion
		for (j = i; j > 1 && v[j-1] + 0 > v[j] + 0; j--) { x = v[j]; v[j] = v[j-1]; v[j-1] = x }
	x = (v[int((n+1)/2)] + v[int(n/2)+1]) / 2
	printf "%-44s %.3f (%.3f-%.3f, half of them %.3f-%.3f, %d rounds)\n", work, x, v[1], v[n], v[int((n+3)/4)], v[int((3*n+1)/4)], n
	return x
}
field("ops_per_s") > 0 && field("failed") == "" {
	key = field("profile") " " field("round")
	ops[field("server"), key] = field("ops_per_s")
	cpu[field("server"), key] = field("server_cpu_us_per_op")
	if (field("server") == "without") keys[++count] = key
}
END {
	for (i = 1; i <= count; i++) {
		k = keys[i]
		if (!(("with", k) in ops) || cpu["with", k] <= 0) continue
		split(k, part, " ")
		work = part[1]
		if (!(work in n)) order[++works] = work
		n[work]++; all++
		o = ops["with", k] / ops["without", k]; c = cpu["without", k] / cpu["with", k]
		opsOf[work] = opsOf[work] " " o; cpuOf[work] = cpuOf[work] " " c
		opsAll = opsAll " " o; cpuAll = cpuAll " " c
	}
	if (!all) { print "no round has both figures"; exit 1 }
	for (i = 1; i <= works; i++) {
		show(order[i] ": operations per second", opsOf[order[i]], n[order[i]])
		show(order[i] ": processor time", cpuOf[order[i]], n[order[i]])
	}
	o = show("all work: operations per second", opsAll, all)
	c = show("all work: processor time", cpuAll, all)
	if (o < least || c < least) { print "it costs more than it may: less than " least; exit 1 }
}' "$dir/trials"
}
