package crash

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPartitionsOfPackets is TestPartitions with packets dropped between network
// namespaces: what is lost here is lost, and TCP's own patience shows.
func TestPartitionsOfPackets(t *testing.T) {
	seed, _ := hurtful(t)
	names, hosts := namespaces(t, 3)
	o := partitioned(seed)
	o.Hosts = hosts
	for _, name := range names {
		o.Wraps = append(o.Wraps, []string{"ip", "netns", "exec", name})
	}
	r := Begin(t, o)
	for range times(0, 1, 5) {
		r.partitions(func() int { return dropped(t, names) }, func(is cut) {
			for i, name := range names {
				run(t, "ip", "netns", "exec", name, "iptables", "-F", "INPUT")
				for j := range names {
					if i != j && is(j, i) {
						run(t, "ip", "netns", "exec", name, "iptables", "-A", "INPUT", "-s", hosts[j], "-j", "DROP")
					}
				}
			}
		})
	}
	// After lost packets each TCP connection comes back in its own time, and
	// servers on the majority's side can be without a leader for longer than this
	// test's short patience: that is told, not judged.
	n, example := r.Disturbed()
	t.Logf("%d connections to servers that were not cut off ended, such as %q", n, example)
	r.Verdict()
}

// dropped is how many packets the rules in force have dropped.
func dropped(t *testing.T, names []string) (sum int) {
	t.Helper()
	for _, name := range names {
		out, err := exec.Command("ip", "netns", "exec", name, "iptables", "-nvxL", "INPUT").Output()
		if err != nil {
			t.Fatalf("count the packets dropped in %s: %v", name, err)
		}
		for line := range strings.Lines(string(out)) {
			var packets, bytes int
			if n, _ := fmt.Sscanf(line, "%d %d DROP", &packets, &bytes); n == 2 {
				sum += packets
			}
		}
	}
	return sum
}

// namespaces makes n network namespaces on one bridge that this process reaches,
// for as long as the test runs. It skips the test where that isn't possible.
func namespaces(t *testing.T, n int) (names, hosts []string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, tool := range []string{"ip", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	id := os.Getpid() % 10000
	link := fmt.Sprintf("zc%d", id)
	if out, err := exec.Command("ip", "link", "add", link, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("this machine makes no bridges: %v: %s", err, out)
	}
	t.Cleanup(func() { run(t, "ip", "link", "del", link) })
	// 198.18.0.0/15 is for tests of networks (RFC 2544): nobody's own.
	net := fmt.Sprintf("198.18.%d", id%250)
	run(t, "ip", "addr", "add", net+".254/24", "dev", link)
	run(t, "ip", "link", "set", link, "up")
	for i := range n {
		name, host := fmt.Sprintf("%sn%d", link, i+1), fmt.Sprintf("%s.%d", net, i+1)
		outer, inner := fmt.Sprintf("%so%d", link, i+1), fmt.Sprintf("%si%d", link, i+1)
		run(t, "ip", "netns", "add", name)
		t.Cleanup(func() { run(t, "ip", "netns", "del", name) })
		run(t, "ip", "link", "add", outer, "type", "veth", "peer", "name", inner)
		t.Cleanup(func() { exec.Command("ip", "link", "del", outer).Run() }) // gone with its namespace, most likely
		run(t, "ip", "link", "set", inner, "netns", name)
		run(t, "ip", "link", "set", outer, "master", link)
		run(t, "ip", "link", "set", outer, "up")
		run(t, "ip", "netns", "exec", name, "ip", "addr", "add", host+"/24", "dev", inner)
		run(t, "ip", "netns", "exec", name, "ip", "link", "set", inner, "up")
		run(t, "ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
		names, hosts = append(names, name), append(hosts, host)
	}
	return names, hosts
}

// run runs a command that must work.
func run(t testing.TB, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
}
