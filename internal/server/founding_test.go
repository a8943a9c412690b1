package server

import (
	"log/slog"
	"net"
	"strings"
	"testing"
)

// TestReachedAt: in the membership a server is where others reach it, if its own line has an address that means
// something else on their machines.
func TestReachedAt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ own, seen, want string }{
		{"0.0.0.0:2888", "zk1:2888", "zk1:2888"}, {"[::]:2888", "10.0.0.1:2888", "10.0.0.1:2888"},
		{"localhost:2888", "zk1:2888", "zk1:2888"}, {"127.0.0.1:2888", "zk1:2999", "zk1:2888"},
		{":2888", "zk1:2888", "zk1:2888"},
		{"127.0.0.1:2888", "127.0.0.1:2999", "127.0.0.1:2888"}, {"192.0.2.1:2888", "zk1:2888", "192.0.2.1:2888"},
		{"0.0.0.0:2888", "0.0.0.0:2888", "0.0.0.0:2888"}, {"0.0.0.0:2888", "", "0.0.0.0:2888"},
		{"0.0.0.0:2888", "nonsense", "0.0.0.0:2888"},
	} {
		members := []Member{{ID: 1, Addrs: []string{"x:1"}}, {ID: 2, Addrs: []string{c.own}}}
		o := Options{ID: 2, Members: members, Log: slog.New(slog.DiscardHandler)}
		o.Membership.At = func(text string, id uint64, host string) (string, bool) { return host, id == 2 }
		reachedAt(&o, c.seen)
		if got := o.Members[1].Addrs[0]; got != c.want || (o.Membership.Text != "") != (c.want != c.own) {
			t.Errorf("own line %s, seen at %s: %s with the text %q, want %s", c.own, c.seen, got, o.Membership.Text, c.want)
		}
	}
}

// TestOwnMembers: the configured membership keeps the address that a staged one has for this server if the own line has
// one that means nothing on other machines.
func TestOwnMembers(t *testing.T) {
	t.Parallel()
	parse := func(text string) (members []Member, err error) {
		for i, addr := range strings.Fields(text) {
			members = append(members, Member{ID: uint64(i + 1), Addrs: []string{addr}})
		}
		return members, nil
	}
	at := func(text string, id uint64, host string) (string, bool) {
		fields := strings.Fields(text)
		_, port, _ := net.SplitHostPort(fields[id-1])
		fields[id-1] = host + ":" + port
		return strings.Join(fields, " "), true
	}
	for own, want := range map[string]string{
		"0.0.0.0:1 b:2":  "a:1 b:2",
		"[::]:1 b:2":     "a:1 b:2",
		"10.0.0.9:1 b:2": "10.0.0.9:1 b:2",
	} {
		members, _ := parse(own)
		o := Options{ID: 1, Members: members, Membership: Membership{Text: own, Parse: parse, At: at}}
		got := own
		if fill := ownMembers(o); fill != nil {
			got = fill(own, "a:1 wrong:2")
		}
		if got != want {
			t.Errorf("own lines %q: %q takes the place of what is staged, want %q", own, got, want)
		}
	}
}
