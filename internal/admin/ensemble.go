package admin

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/serverid"
)

// members returns the membership in force, none for a standalone server.
func (c *call) members() []config.Member {
	if !c.of.Configuration().Ensemble {
		return nil
	}
	text, _ := c.of.Replica().Members()
	m, err := config.ParseMembers(text)
	if err != nil {
		return nil // an ensemble that has just started has none
	}
	return m.Servers
}

// javaAddress formats an address as Apache does, "" for none.
func javaAddress(host string, port int) string {
	if host == "" {
		return ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func (c *call) votingView() {
	var view object
	for _, m := range c.members() {
		if m.Observer {
			continue
		}
		peers, elections := array{}, array{}
		for _, a := range m.Addrs {
			peers = append(peers, javaAddress(a.Host, a.QuorumPort))
			elections = append(elections, javaAddress(a.Host, a.ElectionPort))
		}
		view.set(strconv.FormatInt(m.ID, 10), object{
			{"server_addresses", peers}, {"election_addresses", elections}, {"client_address", javaAddress(m.Client.Host,
				m.Client.Port)}, {"learner_type", "participant"},
		})
	}
	c.set("current_config", view)
}

// observers lists the servers that follow this one without a vote: on the leader these are all of them, since no server
// follows another one. Apache's counters of their connections are 0: peers share connections here.
func (c *call) observers() {
	list, synced := array{}, 0
	for _, p := range c.of.Quorum().Followers {
		if p.Voter || p.Guest || !p.Active {
			continue
		}
		if p.Synced {
			synced++
		}
		list = append(list, object{
			{"remote_socket_address", "/" + c.addressOf(p.ID)}, {"sid", serverid.MyID(p.ID)}, {"established", 0},
			{"queued_packets", 0}, {"queued_packets_size", 0},
			{"packets_received", 0}, {"packets_sent", 0}, {"requests", 0}, {"last_zxid", c.of.Status().Zxid},
		})
	}
	c.set("synced_observers", synced)
	c.set("observers", list)
}

// addresses describes the addresses of a server as Apache does. Apache dials them to find out which can be reached;
// here each counts as reachable.
func addresses(list []config.PeerAddr, port func(config.PeerAddr) int) object {
	all, anyHost, ports, hosts := array{}, array{}, array{}, array{}
	for _, a := range list {
		all = append(all, javaAddress(a.Host, port(a)))
		anyHost = append(anyHost, javaAddress("0.0.0.0", port(a)))
		ports = append(ports, port(a))
		hosts = append(hosts, a.Host)
	}
	var one any
	if len(all) > 0 {
		one = all[0]
	}
	return object{
		{"empty", len(all) == 0}, {"all_addresses", all}, {"wildcard_addresses", anyHost}, {"all_ports", ports},
		{"all_host_strings", hosts},
		{"reachable_address", one}, {"all_reachable_addresses", all}, {"all_reachable_addresses_or_all", all},
		{"reachable_or_one", one}, {"one", one},
	}
}

// addressOf returns the address at which peers reach a member, "" for an unknown member.
func (c *call) addressOf(id uint64) string {
	for _, m := range c.members() {
		if serverid.Raft(m.ID) == id && len(m.Addrs) > 0 {
			return javaAddress(m.Addrs[0].Host, m.Addrs[0].QuorumPort)
		}
	}
	return ""
}

func (c *call) zabState() {
	if !c.started() {
		return
	}
	st := c.of.Status()
	if !c.of.Configuration().Ensemble {
		c.set("voting", false)
		c.set("zabstate", "")
		return
	}
	c.set("myid", c.of.ID())
	c.set("is_leader", st.Mode == fourletter.ModeLeader)
	peers, elections, client := addresses(nil, nil), addresses(nil, nil), ""
	for _, m := range c.members() {
		if m.ID == c.of.ID() {
			peers = addresses(m.Addrs, func(a config.PeerAddr) int { return a.QuorumPort })
			elections = addresses(m.Addrs, func(a config.PeerAddr) int { return a.ElectionPort })
			client = javaAddress(m.Client.Host, m.Client.Port)
		}
	}
	c.set("quorum_address", peers)
	c.set("election_address", elections)
	c.set("client_address", client)
	c.set("voting", st.Mode != fourletter.ModeObserver && st.Mode != fourletter.ModeReadOnly)
	c.set("last_zxid", fmt.Sprintf("0x%x", uint64(st.Zxid)))
	c.set("zab_epoch", st.Zxid>>32)
	c.set("zab_counter", st.Zxid&(1<<32-1))
	state := "election"
	if _, phase, ok := strings.Cut(st.PeerState, " - "); ok && st.Serving {
		state = phase
	}
	c.set("zabstate", state)
}
