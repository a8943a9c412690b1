package crash

import (
	"fmt"
	"strings"
	"testing"
)

// TestRecoveredTwice recovers two servers of one ensemble, so that there are two. An operator who asks either is told
// so, and what to do: by status and by doctor, whether mntr is permitted or not. What they say is right.
func TestRecoveredTwice(t *testing.T) {
	hurtful(t)
	t.Parallel()
	for name, words := range map[string]string{"mntr permitted": "*", "default": "srvr"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := layOutOnly(t, Options{Servers: 3, Config: map[string]string{"4lw.commands.whitelist": words}})
			startThem(t, e.Servers...)
			oneTree(t, nil, e.Servers...)
			for _, s := range e.Servers {
				s.Stop()
			}
			survivors := e.Servers[:2]
			for _, s := range survivors {
				s.renew(t)
			}
			startThem(t, survivors...)
			for i, s := range survivors {
				if _, err := s.Ready(); err != nil {
					t.Fatal(err)
				}
				write(t, s.Addr, fmt.Sprintf("/only-%d", s.ID))
				other := survivors[1-i]
				await(t, fmt.Sprintf("zooid status on server %d tells of the other ensemble", s.ID), func() bool {
					_, says := s.command(t, "status")
					says = strings.Join(strings.Fields(says), " ")
					return strings.Contains(says, "it belongs to another ensemble, of lineage "+other.cluster(t)) &&
						strings.Contains(says, "zooid recover -set-aside")
				})
				await(t, fmt.Sprintf("zooid doctor on server %d tells of the other ensemble", s.ID), func() bool {
					code, says := s.command(t, "doctor")
					return code != 0 && strings.Contains(says, fmt.Sprintf("different lineages, which never mix: %s here; %s on server %d",
						s.cluster(t), other.cluster(t), other.ID))
				})
			}
			given := survivors[1]
			given.Stop()
			given.zooid(t, "recover", "-set-aside", "-cluster", given.cluster(t), "-why", "server 1 goes on", given.config())
			startThem(t, given)
			oneTree(t, []string{"/only-1"}, survivors...)
			await(t, "zooid status tells of no other ensemble any more", func() bool {
				_, says := survivors[0].command(t, "status")
				return !strings.Contains(says, "another ensemble")
			})
		})
	}
}
