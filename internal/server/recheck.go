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

// SetSuperusers replaces the superusers. Former ones stay connected until the next recheck, which begins now, if any.
func (r *rechecks) SetSuperusers(u auth.Superusers) {
	r.auth.SetSuperusers(u)
	r.Recheck()
}

// Recheck checks all clients and peers again now, if they are rechecked at all (Options.RecheckInterval).
func (r *rechecks) Recheck() { r.asked.raise() }

// run checks all clients and peers at each RecheckInterval and when Recheck asks, certificates last: issuers are slow.
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
		r.closeWithdrawn(r.withdrawn)
		r.peer.Recheck()
		r.judged = judged{}
		r.closeWithdrawn(r.refused)
	}
}

// closeWithdrawn closes the connections of clients for which check returns a reason. Earlier requests are executed.
func (r *rechecks) closeWithdrawn(check func(*replica.Client, *clientSocket) string) {
	for _, c := range r.replica.Clients() {
		if r.stopping() || len(r.asked) > 0 { // in time, though an issuer doesn't answer for certificate after certificate
			return
		}
		k, ok := c.Socket.(*clientSocket)
		if !ok || c.Ending() != "" {
			continue
		}
		if why := check(c, k); why != "" {
			r.meters.IdentitiesGone.Inc()
			c.CloseAfter(why)
		}
	}
}

// withdrawn returns why a client would no longer get its identities if it logged in now, or "" if it would.
func (r *rechecks) withdrawn(c *replica.Client, _ *clientSocket) string {
	if id, gone := r.auth.Withdrawn(c.Grants()); gone {
		return "it is no longer a superuser, or the user of letAnySaslUserDoX: " + auth.UserName(id)
	}
	if login := c.Login.Load(); login != nil && !(*login).Holds() {
		return "the user by whom it logged in was removed, or has another password"
	}
	return ""
}

// refused returns why the certificate that a client has shown would be refused now, or "" if it would not.
func (r *rechecks) refused(_ *replica.Client, k *clientSocket) string {
	if len(k.shown) > 0 && r.opt.Secure.Check != nil {
		if err := r.judged.check(k.shown, r.opt.Secure.Check); err != nil {
			return "its certificate is no longer accepted: " + err.Error()
		}
	}
	return ""
}

// judged holds the results of one recheck by certificate, which many clients may present. It is owned by run.
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
	if !known {
		if err = check(shown); len(j) < judgedMax {
			j[key] = err
		}
	}
	return err
}
