package server

import (
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/socket"
)

// rechecks checks whether clients would still get their identities. Certificates have a goroutine of their own: their
// issuers may take long to answer.
type rechecks struct {
	*engine
	auth              *auth.Registry
	asked, certifying signal // credentials are to be checked again, certificates
}

// SetSuperusers replaces the superusers. Former ones stay connected until the next recheck, which begins now, if any.
func (r *rechecks) SetSuperusers(u auth.Superusers) {
	r.auth.SetSuperusers(u)
	r.Recheck()
}

// Recheck checks all clients and peers again now, if they are rechecked at all (Options.RecheckInterval). A check of
// certificates that is under way continues to its end, and one more follows.
func (r *rechecks) Recheck() { r.asked.raise() }

// run checks all clients and peers at each RecheckInterval and when Recheck asks.
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
		r.certifying.raise()
	}
}

// runCertificates checks all certificates each time that run asks.
func (r *rechecks) runCertificates() {
	for {
		select {
		case <-r.closing:
			return
		case <-r.certifying:
		}
		r.peer.Recheck()
		results := socket.Judged{}
		r.closeWithdrawn(func(_ *replica.Client, k *clientSocket) string { return r.refused(k, results) })
	}
}

// closeWithdrawn closes the connections of clients for which check returns a reason. Earlier requests are executed.
func (r *rechecks) closeWithdrawn(check func(*replica.Client, *clientSocket) string) {
	for _, c := range r.replica.Clients() {
		if r.stopping() {
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
		return "the user by whom it logged in was removed, or has another password or name"
	}
	return ""
}

// refused returns why the certificate that a client has shown would be refused now, or "" if it would not.
func (r *rechecks) refused(k *clientSocket, results socket.Judged) string {
	if len(k.shown) > 0 && r.opt.Secure.Check != nil {
		if err := results.Check(k.shown, r.opt.Secure.Check); err != nil {
			return "its certificate is no longer accepted: " + err.Error()
		}
	}
	return ""
}
