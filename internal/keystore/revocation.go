package keystore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"
)

// The limits of revocation checks.
const (
	crlBytesMax       = 16 << 20
	ocspBytesMax      = 64 << 10
	revocationTimeout = 5 * time.Second  // of one query
	questionsMax      = 8                // concurrent queries
	answersMax        = 1024             // cached answers of each kind
	crlBytesKept      = 64 << 20         // cached bytes of lists
	answerLasts       = 5 * time.Minute  // the maximum time for which an answer is cached
	silenceLasts      = time.Minute      // how long rechecks don't ask again where nothing answered
	clockSkew         = 15 * time.Minute // like Java's, between this host and the signers
)

// errUnknown says that a certificate's revocation status is unknown; as in Java, such a certificate is rejected.
var errUnknown = errors.New("it can't be determined whether the certificate was revoked")

// revocation checks whether certificates are revoked, by lists and by OCSP, as Java does: it checks all certificates of
// a chain except the trusted one, and uses OCSP first.
type revocation struct {
	*answers
	again bool // for rechecks, which don't ask where nothing answered lately: there may be one for each of many clients
}

// answers asks issuers, and keeps what they have answered.
type answers struct {
	crl, ocsp bool
	file      string // a file with lists, "" for none
	client    *http.Client
	now       func() time.Time
	turns     chan struct{}

	mu     sync.Mutex
	lists  map[string]keptList
	bytes  int // total size of the cached lists
	asked  map[[sha256.Size]byte]keptAnswer
	silent map[string]time.Time // when a location last failed to answer
	// newest are the newest lists that the file had when readFile read it, by issuer.
	newest map[string]*x509.RevocationList
}

type keptList struct {
	list  *x509.RevocationList
	until time.Time
}

type keptAnswer struct {
	revoked bool
	until   time.Time
}

// newRevocation returns nil if no check is configured.
func newRevocation(crl, ocsp bool, file string) *revocation {
	if !crl && !ocsp && file == "" {
		return nil
	}
	return &revocation{answers: &answers{
		crl: crl, ocsp: ocsp, file: file, now: time.Now, turns: make(chan struct{}, questionsMax),
		client: &http.Client{
			Transport: &http.Transport{
				DisableCompression: true, MaxConnsPerHost: questionsMax, IdleConnTimeout: time.Minute,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		lists: map[string]keptList{}, asked: map[[sha256.Size]byte]keptAnswer{},
		silent: map[string]time.Time{}, newest: map[string]*x509.RevocationList{},
	}}
}

// forRechecks returns r with the same answers, for checking certificates again.
func (r *revocation) forRechecks() *revocation {
	if r == nil {
		return nil
	}
	return &revocation{answers: r.answers, again: true}
}

// readFile returns an error if the file of lists can't be read, or if it has an older list of an issuer than before.
// The file is in use as it is in either case: whoever writes it decides which certificates are revoked.
func (r *revocation) readFile() error {
	if r == nil || r.file == "" {
		return nil
	}
	lists, err := readLists(r.file)
	if err != nil {
		return fmt.Errorf("%w; until that is corrected, new connections with certificates are refused, and open ones stay",
			err)
	}
	current := map[string]*x509.RevocationList{}
	for _, list := range lists {
		if issuer := string(list.RawIssuer); current[issuer] == nil || supersedes(list, current[issuer]) {
			current[issuer] = list
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for issuer, list := range current { // any order: one error is enough
		if last := r.newest[issuer]; last != nil && supersedes(last, list) {
			err = fmt.Errorf("the list of %s in %s is older than the one before: certificates that were revoked since are accepted again; put the newer list there",
				list.Issuer, r.file)
			continue
		}
		r.newest[issuer] = list
	}
	return err
}

// check returns nil if at least one of the chains has no revoked certificate. stapled is an OCSP response for the first
// certificate, if there is one. A nil revocation accepts all chains.
func (r *revocation) check(chains [][]*x509.Certificate, stapled []byte) (err error) {
	if r == nil {
		return nil
	}
	for _, chain := range chains {
		if err = r.checkChain(chain, stapled); err == nil {
			return nil
		}
	}
	return err
}

func (r *revocation) checkChain(chain []*x509.Certificate, stapled []byte) error {
	for i := range len(chain) - 1 {
		if err := r.checkOne(chain[i], chain[i+1], stapled); err != nil {
			return fmt.Errorf("check the certificate %q for revocation: %w", chain[i].Subject.String(), err)
		}
		stapled = nil
	}
	return nil
}

var errRevoked = errors.New("it was revoked by its issuer")

func (r *revocation) checkOne(cert, issuer *x509.Certificate, stapled []byte) error {
	var failed error
	if r.ocsp {
		revoked, err := r.askOCSP(cert, issuer, stapled)
		if err == nil {
			if revoked {
				return errRevoked
			}
			return nil
		}
		failed = err
	}
	if r.crl || r.file != "" {
		revoked, err := r.lookUp(cert, issuer)
		if err == nil {
			if revoked {
				return errRevoked
			}
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return fmt.Errorf("%w: %w", errUnknown, failed)
}

// held returns what a map that mu guards has for a key.
func held[K comparable, V any](mu *sync.Mutex, m map[K]V, key K) (V, bool) {
	mu.Lock()
	defer mu.Unlock()
	v, ok := m[key]
	return v, ok
}

// askOCSP asks the issuer's responder, unless stapled is a valid response.
func (r *revocation) askOCSP(cert, issuer *x509.Certificate, stapled []byte) (revoked bool, err error) {
	if len(stapled) > 0 {
		if answer, err := r.parseOCSP(stapled, cert, issuer); err == nil {
			return answer.Status == ocsp.Revoked, nil
		}
	}
	key := sha256.Sum256(append(append([]byte(nil), cert.Raw...), issuer.Raw...))
	now := r.now()
	if kept, ok := held(&r.mu, r.asked, key); ok && now.Before(kept.until) {
		return kept.revoked, nil
	}
	question, err := ocsp.CreateRequest(cert, issuer, nil)
	if err != nil {
		return false, err
	}
	err = errors.New("the certificate names no OCSP responder")
	for _, at := range cert.OCSPServer[:min(len(cert.OCSPServer), 2)] {
		var b []byte
		if b, err = r.fetch(http.MethodPost, at, question, ocspBytesMax); err != nil {
			continue
		}
		var answer *ocsp.Response
		if answer, err = r.parseOCSP(b, cert, issuer); err != nil {
			continue
		}
		until := now.Add(answerLasts)
		if !answer.NextUpdate.IsZero() && answer.NextUpdate.Before(until) {
			until = answer.NextUpdate
		}
		r.mu.Lock()
		if len(r.asked) >= answersMax {
			clear(r.asked)
		}
		r.asked[key] = keptAnswer{answer.Status == ocsp.Revoked, until}
		r.mu.Unlock()
		return answer.Status == ocsp.Revoked, nil
	}
	return false, err
}

// parseOCSP returns a response that is signed by the issuer or its authorized responder, is current, and says good or
// revoked.
func (r *revocation) parseOCSP(b []byte, cert, issuer *x509.Certificate) (*ocsp.Response, error) {
	answer, err := ocsp.ParseResponseForCert(b, cert, issuer)
	if err != nil {
		return nil, err
	}
	now := r.now()
	if signer := answer.Certificate; signer != nil && !signer.Equal(issuer) {
		if !mayAnswer(signer) || now.Before(signer.NotBefore) || now.After(signer.NotAfter) {
			return nil, errors.New("the OCSP answer is signed by a certificate that isn't for that")
		}
	}
	until := answer.NextUpdate
	if until.IsZero() {
		until = answer.ThisUpdate
	}
	switch {
	case answer.ThisUpdate.After(now.Add(clockSkew)) || until.Before(now.Add(-clockSkew)):
		return nil, errors.New("the OCSP answer is out of date")
	case answer.Status != ocsp.Good && answer.Status != ocsp.Revoked:
		return nil, errors.New("the OCSP responder doesn't know the certificate")
	}
	return answer, nil
}

func mayAnswer(signer *x509.Certificate) bool {
	return slices.Contains(signer.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning)
}

// lookUp looks for a certificate in the lists of the file, then in those at the URLs in the certificate.
func (r *revocation) lookUp(cert, issuer *x509.Certificate) (revoked bool, err error) {
	err = errors.New("there is no revocation list of its issuer")
	if r.file != "" {
		lists, bad := readLists(r.file)
		if bad != nil {
			return false, bad
		}
		var newest *x509.RevocationList
		for _, list := range lists {
			if !bytes.Equal(list.RawIssuer, issuer.RawSubject) {
				continue
			}
			if unfit := r.covers(list, cert, issuer, ""); unfit != nil {
				err = fmt.Errorf("the issuer's revocation list in %s: %w", r.file, unfit)
			} else if newest == nil || supersedes(list, newest) {
				newest = list
			}
		}
		if newest != nil {
			return contains(newest, cert), nil
		}
	}
	if !r.crl {
		return false, err
	}
	for _, at := range cert.CRLDistributionPoints[:min(len(cert.CRLDistributionPoints), 4)] {
		var list *x509.RevocationList
		if list, err = r.list(at, issuer); err != nil {
			continue
		}
		if err = r.covers(list, cert, issuer, at); err == nil {
			return contains(list, cert), nil
		}
	}
	return false, err
}

// supersedes reports whether list is newer than other, which the issuer signed too: by the time and, within one second,
// by the number (RFC 5280, 5.2.3). An older list may still be current, but it lacks later revocations.
func supersedes(list, other *x509.RevocationList) bool {
	if !list.ThisUpdate.Equal(other.ThisUpdate) {
		return list.ThisUpdate.After(other.ThisUpdate)
	}
	return list.Number != nil && (other.Number == nil || list.Number.Cmp(other.Number) > 0)
}

func contains(list *x509.RevocationList, cert *x509.Certificate) bool {
	for i := range list.RevokedCertificateEntries {
		if e := &list.RevokedCertificateEntries[i]; e.SerialNumber.Cmp(cert.SerialNumber) == 0 {
			return e.ReasonCode != reasonRemoved
		}
	}
	return false
}

// reasonRemoved is the reason of an entry that cancels a revocation (RFC 5280, 5.3.1).
const reasonRemoved = 8

// issuingPoint is the extension that says which certificates a list covers (RFC 5280, 5.2.5).
type issuingPoint struct {
	Point    asn1.RawValue  `asn1:"optional,tag:0"`
	Users    bool           `asn1:"optional,tag:1"`
	CAs      bool           `asn1:"optional,tag:2"`
	Some     asn1.BitString `asn1:"optional,tag:3"`
	Indirect bool           `asn1:"optional,tag:4"`
	Attr     bool           `asn1:"optional,tag:5"`
}

var (
	oidIssuingPoint = asn1.ObjectIdentifier{2, 5, 29, 28}
	errOtherList    = errors.New("the revocation list isn't one of all such certificates of the issuer")
)

// covers returns nil if a list is signed by the issuer, is current, and covers the certificate completely.
func (r *revocation) covers(list *x509.RevocationList, cert, issuer *x509.Certificate, at string) error {
	if err := list.CheckSignatureFrom(issuer); err != nil {
		return err
	}
	if now := r.now(); list.ThisUpdate.After(now.Add(clockSkew)) ||
		!list.NextUpdate.IsZero() && list.NextUpdate.Before(now.Add(-clockSkew)) {
		return errors.New("the revocation list is out of date")
	}
	for _, e := range list.Extensions {
		if !e.Critical {
			continue
		}
		var p issuingPoint
		if rest, err := asn1.Unmarshal(e.Value, &p); !e.Id.Equal(oidIssuingPoint) || err != nil || len(rest) > 0 {
			return errOtherList
		}
		if p.Indirect || p.Attr || p.Some.BitLength > 0 || p.Users && cert.IsCA || p.CAs && !cert.IsCA {
			return errOtherList
		}
		named := at != "" && bytes.Contains(p.Point.FullBytes, []byte(at))
		for _, own := range cert.CRLDistributionPoints {
			named = named || at == "" && bytes.Contains(p.Point.FullBytes, []byte(own))
		}
		if len(p.Point.FullBytes) > 0 && !named {
			return errOtherList
		}
	}
	return nil
}

// list returns the list at a URL, from the cache if possible. An older list doesn't replace a cached one, since an
// attacker on the network could send it.
func (r *revocation) list(at string, issuer *x509.Certificate) (*x509.RevocationList, error) {
	now := r.now()
	if kept, ok := held(&r.mu, r.lists, at); ok && now.Before(kept.until) {
		return kept.list, nil
	}
	b, err := r.fetch(http.MethodGet, at, nil, crlBytesMax)
	if err != nil {
		return nil, err
	}
	list, err := x509.ParseRevocationList(b)
	if err != nil {
		return nil, fmt.Errorf("read the revocation list at %.200q: %w", at, err)
	}
	if err := list.CheckSignatureFrom(issuer); err != nil { // a forged list must not replace the cached one
		return nil, fmt.Errorf("read the revocation list at %.200q: %w", at, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.lists[at].list; last != nil {
		r.bytes -= len(last.Raw)
		if supersedes(last, list) {
			list = last
		}
	}
	if len(r.lists) >= answersMax || r.bytes+len(list.Raw) > crlBytesKept {
		clear(r.lists)
		r.bytes = 0
	}
	r.bytes += len(list.Raw)
	r.lists[at] = keptList{list, now.Add(answerLasts)}
	return list, nil
}

// fetch asks a location, and notes whether it answers. The locations come from certificates of trusted issuers.
func (r *revocation) fetch(method, at string, body []byte, most int64) ([]byte, error) {
	if since, ok := held(&r.mu, r.silent, at); r.again && ok && r.now().Sub(since).Abs() < silenceLasts {
		return nil, fmt.Errorf("ask %.200q: it did not answer lately", at)
	}
	b, answered, err := r.request(method, at, body, most)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		delete(r.silent, at)
	case !answered:
		if len(r.silent) >= answersMax {
			clear(r.silent)
		}
		r.silent[at] = r.now()
	}
	return b, err
}

// request sends an HTTP request, and reports whether there was an answer, or no reason to expect one.
func (r *answers) request(method, at string, body []byte, most int64) (b []byte, answered bool, err error) {
	if !strings.HasPrefix(at, "http://") && !strings.HasPrefix(at, "https://") {
		return nil, true, fmt.Errorf("ask %.200q: only HTTP is spoken", at)
	}
	ctx, cancel := context.WithTimeout(context.Background(), revocationTimeout)
	defer cancel()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return nil, true, fmt.Errorf("ask %.200q: too many questions are under way", at)
	}
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, true, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/ocsp-request")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, true, fmt.Errorf("ask %.200q: the status is %d", at, resp.StatusCode)
	}
	b, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	answered = err == nil
	if answered && int64(len(b)) > most {
		err = fmt.Errorf("ask %.200q: the answer has more than %d bytes", at, most)
	}
	return b, answered, err
}

// ListsEnd returns when the first list of a file goes out of date, and its issuer. From then on servers refuse the
// issuer's certificates. It ignores lists that a newer one supersedes. The time is zero if no list goes out of date.
func ListsEnd(file string) (end time.Time, issuer string, err error) {
	lists, err := readLists(file)
	if err != nil {
		return time.Time{}, "", err
	}
	for _, list := range lists {
		newer := func(other *x509.RevocationList) bool {
			return bytes.Equal(list.RawIssuer, other.RawIssuer) && supersedes(other, list)
		}
		if slices.ContainsFunc(lists, newer) || list.NextUpdate.IsZero() {
			continue
		}
		if end.IsZero() || list.NextUpdate.Before(end) {
			end, issuer = list.NextUpdate, list.Issuer.String()
		}
	}
	return end, issuer, nil
}

// readLists reads a file with lists in PEM or one list in DER.
func readLists(file string) (lists []*x509.RevocationList, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read revocation lists: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, crlBytesMax+1))
	if err == nil && len(data) > crlBytesMax {
		err = fmt.Errorf("it has more than %d bytes", crlBytesMax)
	}
	if err == nil {
		lists, err = parseLists(data)
	}
	if err != nil {
		return nil, fmt.Errorf("read revocation lists from %s: %w", file, err)
	}
	return lists, nil
}

// parseLists parses lists in PEM, or one list in DER.
func parseLists(data []byte) (lists []*x509.RevocationList, err error) {
	ders := [][]byte{data}
	if bytes.Contains(data, []byte("-----BEGIN")) {
		ders = nil
		blocks, err := pemBlocks(data)
		if err != nil {
			return nil, err
		}
		for _, block := range blocks {
			if block.Type == "X509 CRL" {
				ders = append(ders, block.Bytes)
			}
		}
	}
	for _, b := range ders {
		list, err := x509.ParseRevocationList(b)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	if len(lists) == 0 {
		return nil, errors.New("it holds none")
	}
	return lists, nil
}
