package server

import (
	"crypto/sha256"
	"crypto/x509"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
)

// rechecks checks whether clients would still get their identities.
type rechecks struct {
	*engine
	auth   *auth.Registry
	asked  signal // credentials are to be checked again
	judged judged // owned by run
}

// SetSuperusers replaces the superusers. Clients that are no longer superusers stay connected until the next recheck,
// which begins now if clients are rechecked.
func (r *rechecks) SetSuperusers(u auth.Superusers) {
	r.auth.SetSuperusers(u)
	r.Recheck()
}

// Recheck checks the credentials of all clients and peers again now, if they are rechecked at all
// (Options.RecheckInterval).
func (r *rechecks) Recheck() {
	r.asked.raise()
}

// run checks the credentials of all clients, and the certificates of peers, at each RecheckInterval and when
// Recheck asks.
func (r *rechecks) run() {
	tick := time.NewTicker(r.opt.RecheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-tick.C:
		case <-r.asked:
		}
		r.judged = judged{}
		r.closeWithdrawn()
		r.peer.Recheck()
	}
}

// closeWithdrawn closes the connections of clients that would no longer get their identities if they logged in now.
// Earlier requests are still executed.
func (r *rechecks) closeWithdrawn() {
	for _, c := range r.replica.Clients() {
		k, ok := c.Socket.(*clientSocket)
		if !ok || c.Ending() != "" {
			continue
		}
		if why := r.withdrawn(c, k.shown); why != "" {
			r.meters.IdentitiesGone.Inc()
			c.CloseAfter(why)
		}
	}
}

// withdrawn returns why the identities of a client are no longer valid, or "" if they are. shown
// are the certificates that the client has presented.
func (r *rechecks) withdrawn(c *replica.Client, shown []*x509.Certificate) string {
	if id, gone := r.auth.Withdrawn(c.Grants()); gone {
		return "it is no longer a superuser, or the user of letAnySaslUserDoX: " + auth.UserName(id)
	}
	if login := c.Login.Load(); login != nil && !(*login).Holds() {
		return "the user by whom it logged in was removed, or has another password"
	}
	if len(shown) > 0 && r.opt.Secure.Check != nil {
		if err := r.judged.check(shown, r.opt.Secure.Check); err != nil {
			return "its certificate is no longer accepted: " + err.Error()
		}
	}
	return ""
}

// judged holds the results for the certificates checked during one recheck of all clients; many
// clients may present the same one. It is owned by run.
type judged map[[sha256.Size]byte]error

// judgedMax bounds judged; further certificates are checked each time.
const judgedMax = 10_000

// check returns the result of the function check for the certificates shown, and calls it only once for equal ones.
func (j judged) check(shown []*x509.Certificate, check func([]*x509.Certificate) error) error {
	h := sha256.New()
	for _, c := range shown {
		h.Write(c.Raw)
	}
	var key [sha256.Size]byte
	h.Sum(key[:0])
	err, known := j[key]
	if known {
		return err
	}
	err = check(shown)
	if len(j) < judgedMax {
		j[key] = err
	}
	return err
}
