package setup

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/config"
)

// DaysMax is how long a certificate may last. It is the default too.
const DaysMax = certificateDays

// foldersMax bounds how many folders one name may have: one for each time it got a certificate.
const foldersMax = 1000

// A Request says which certificate is wanted.
type Request struct {
	Dir string // it has the authority's folder, ca
	// App is the application's name, or Hosts are the server's names and addresses.
	App   string
	Hosts []string
	// Superuser requires a name that makes its holder a superuser. Without it, such a name is refused.
	Superuser bool
	Days      int // how long it lasts; 0 for DaysMax, or until the authority ends
	Now       time.Time
}

// A Certificate is one that the authority has issued.
type Certificate struct {
	Name    string    `json:"name"`            // an application's, or the first of a server's
	Hosts   []string  `json:"hosts,omitempty"` // a server's
	Usage   string    `json:"usage"`           // server, application or superuser
	Subject string    `json:"subject"`
	Serial  string    `json:"serial"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Revoked time.Time `json:"revoked,omitzero"`
	Folder  string    `json:"-"` // where it was written
}

// Issue issues a certificate and writes it into a new folder: DIR/apps/NAME or DIR/servers/HOST.
// A name that has a certificate already gets none: Renew gives it a new one.
func Issue(q Request) (c Certificate, err error) {
	name := q.App
	if q.App != "" || len(q.Hosts) == 0 {
		err = checkAppName(q.App)
	} else if err = checkHosts(q.Hosts); err == nil {
		name = serverName(q.Hosts[0])
	}
	if err != nil {
		return c, err
	}
	err = change(q.Dir, q.Now, func(r *register) error {
		super, err := superusers(q.Dir)
		if err != nil {
			return err
		}
		switch is := isSuperuser(name, super); {
		case is && !q.Superuser:
			return fmt.Errorf("issue a certificate for %s: its holder would be the superuser; choose another name, or give -superuser",
				name)
		case q.Superuser && !slices.Contains(super, name):
			return fmt.Errorf("issue a superuser's certificate for %s: the servers' superuser is called %s (X509AuthenticationProvider.superUser)",
				name, strings.Join(super, " or "))
		}
		for _, cert := range r.issued {
			if q.Superuser {
				break // the caller wants a further superuser
			}
			for _, who := range append(slices.Clone(q.Hosts), q.App) {
				if r.live(cert) && who != "" && named(cert, who) {
					return fmt.Errorf("issue a certificate for %s: there is one until %s (%s); 'zooid cert renew' issues another one, and 'zooid cert revoke' ends it",
						who, day(cert.NotAfter), serialText(cert))
				}
			}
		}
		c, err = r.issue(q, name, super)
		return err
	})
	return c, err
}

// Renew issues a certificate with a new key and the names in the last certificate of who. who is an application's name,
// a server's name or address, or a serial number. The last certificate stays valid.
func Renew(q Request, who string) (c, last Certificate, err error) {
	err = change(q.Dir, q.Now, func(r *register) error {
		found, err := r.find(who)
		if err != nil {
			return err
		}
		cert := found[len(found)-1]
		if !r.revoked(cert).IsZero() {
			return fmt.Errorf("renew the certificate of %s: it was revoked on %s; 'zooid cert issue' makes a new one", who,
				day(r.revoked(cert)))
		}
		super, err := superusers(q.Dir)
		if err != nil {
			return err
		}
		last = r.describe(cert, super)
		q.App, q.Hosts = last.Name, last.Hosts
		if len(q.Hosts) > 0 {
			q.App = ""
		}
		c, err = r.issue(q, cert.Subject.CommonName, super)
		return err
	})
	return c, last, err
}

// issue issues, records and writes a certificate.
func (r *register) issue(q Request, name string, super []string) (c Certificate, err error) {
	until := r.now.AddDate(0, 0, q.Days)
	switch {
	case q.Days < 0 || q.Days > DaysMax:
		return c, fmt.Errorf("issue a certificate for %d days: want 1 to %d", q.Days, DaysMax)
	case q.Days > 0 && until.After(r.ca.cert.NotAfter):
		return c, fmt.Errorf("issue a certificate until %s: the authority ends on %s", day(until), day(r.ca.cert.NotAfter))
	case q.Days == 0:
		if until = r.now.AddDate(0, 0, DaysMax); until.After(r.ca.cert.NotAfter) {
			until = r.ca.cert.NotAfter
		}
	}
	text, cert, err := r.ca.issue(name, q.Hosts, r.now, until)
	if err != nil {
		return c, err
	}
	if err := r.record(cert); err != nil {
		return c, err
	}
	c = r.describe(cert, super)
	if c.Folder, err = r.write(q, text); err != nil {
		return c, fmt.Errorf("write the certificate of %s: %w; it is recorded (%s), but its key is lost: revoke it",
			c.Name, err, c.Serial)
	}
	return c, nil
}

// write writes a certificate and the other files that its holder needs into a new folder, which it returns.
func (r *register) write(q Request, text string) (folder string, err error) {
	kind, name := "apps", q.App
	files := []file{{"ca.pem", r.ca.text, 0o644}}
	if q.App == "" {
		kind, name = "servers", strings.ToLower(q.Hosts[0])
		files = append(files, file{"server.pem", text, 0o600}, file{listFile, block(listBlock, r.list.Raw), 0o644})
	} else {
		connect, err := connectString(q.Dir)
		if err != nil {
			return "", err
		}
		files = append(files, clientFiles("app.pem", text, connect)...)
	}
	above := filepath.Join(q.Dir, kind)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return "", err
	}
	for n := 1; n <= foldersMax; n++ {
		folder = filepath.Join(above, name)
		if n > 1 {
			folder += "." + strconv.Itoa(n)
		}
		err := os.Mkdir(folder, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return "", err
		}
		return folder, writeFolder(folder, "", files)
	}
	return "", fmt.Errorf("there are %d folders of that name in %s already", foldersMax, above)
}

// connectString returns the connect string that init has written for the clients in dir, or "" if it isn't known.
func connectString(dir string) (string, error) {
	text, err := readBounded(ProfileFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	values, err := config.Properties(text)
	return values[ProfileName+".server"], err
}

// addToClients adds a server to the files that init has written for the superuser's clients, if these exist.
func addToClients(dir, address string) error {
	connect, err := connectString(dir)
	if err != nil || connect == "" || slices.Contains(strings.Split(connect, ","), address) {
		return err
	}
	for _, name := range []string{profileFile, propertiesFile} {
		file := filepath.Join(dir, "client", name)
		text, err := readBounded(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte(connect+"\n"), []byte(connect+","+address+"\n"))
		if err := os.WriteFile(file, text, 0o644); err != nil { // a file that is there keeps its mode
			return err
		}
	}
	return nil
}

// Revoke revokes certificates by a new revocation list: those of the name who, or the one with the serial number who,
// or the one in the file who if who contains a slash. It returns the revoked certificates, and the file of the list.
func Revoke(dir, who string, now time.Time) (revoked []Certificate, list string, err error) {
	err = change(dir, now, func(r *register) error {
		found, err := r.find(who)
		if strings.Contains(who, "/") {
			found, err = r.inFile(who)
		}
		if err != nil {
			return err
		}
		super, err := superusers(dir)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(cert *x509.Certificate) bool { return !r.live(cert) })
		if len(found) == 0 {
			return fmt.Errorf("revoke the certificates of %s: all of them have been revoked or have expired", who)
		}
		if err := r.record(found...); err != nil { // also those that were adopted
			return err
		}
		if err := r.revoke(found...); err != nil {
			return err
		}
		for _, cert := range found {
			revoked = append(revoked, r.describe(cert, super))
		}
		return nil
	})
	return revoked, filepath.Join(dir, "ca", listFile), err
}

// List returns the certificates that the authority in dir has issued, in that order. It doesn't need the
// authority's key.
func List(dir string, now time.Time) (all []Certificate, err error) {
	r, err := openRegister(dir, now)
	if err != nil {
		return nil, err
	}
	super, err := superusers(dir)
	if err != nil {
		return nil, err
	}
	for _, cert := range r.issued {
		all = append(all, r.describe(cert, super))
	}
	return all, nil
}

// find returns the certificates of who, which must be unique.
func (r *register) find(who string) (found []*x509.Certificate, err error) {
	for _, cert := range r.issued {
		if serialText(cert) == who {
			return []*x509.Certificate{cert}, nil
		}
		if named(cert, who) {
			found = append(found, cert)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("find the certificate of %.80q: there is none; 'zooid cert list' lists those that were issued",
			who)
	}
	var serials []string
	for _, cert := range found {
		serials = append(serials, serialText(cert)+" ("+cert.Subject.CommonName+")")
	}
	for _, cert := range found[1:] {
		if cert.Subject.CommonName != found[0].Subject.CommonName {
			return nil, fmt.Errorf("find the certificate of %s: several have that name; give the serial number: %s", who,
				strings.Join(serials, ", "))
		}
	}
	return found, nil
}

// inFile returns the certificate in a file, which the authority must have issued. The certificate need not be in the
// register.
func (r *register) inFile(file string) ([]*x509.Certificate, error) {
	text, err := readBounded(file)
	if err != nil {
		return nil, err
	}
	certs, err := certificates(text)
	if err != nil || len(certs) == 0 {
		return nil, fmt.Errorf("read %s: want a certificate in PEM: %w", file, errors.Join(err, countError(len(certs))))
	}
	if err := certs[0].CheckSignatureFrom(r.ca.cert); err != nil {
		return nil, fmt.Errorf("read %s: this authority didn't issue it: %w", file, err)
	}
	if certs[0].Equal(r.ca.cert) {
		return nil, fmt.Errorf("read %s: it is the authority's own certificate; remove it from the servers' ca.pem instead",
			file)
	}
	return certs[:1], nil
}

// named reports whether a certificate belongs to an application or server called who.
func named(cert *x509.Certificate, who string) bool {
	hosts := hostsOf(cert)
	if len(hosts) == 0 {
		return cert.Subject.CommonName == who
	}
	return slices.ContainsFunc(hosts, func(host string) bool { return sameHost(host, who) })
}

func hostsOf(cert *x509.Certificate) []string {
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func (r *register) describe(cert *x509.Certificate, super []string) Certificate {
	c := Certificate{
		Name: cert.Subject.CommonName, Hosts: hostsOf(cert), Usage: "application", Subject: cert.Subject.String(),
		Serial: serialText(cert), From: cert.NotBefore, Until: cert.NotAfter, Revoked: r.revoked(cert),
	}
	switch {
	case isSuperuser(c.Name, super):
		c.Usage = "superuser"
	case len(c.Hosts) > 0 || slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth):
		c.Usage = "server"
	}
	if len(c.Hosts) > 0 {
		c.Name = c.Hosts[0]
	}
	return c
}

// The files that init and Issue write for zooid's own tools, with a profile, and for Java's clients.
const (
	profileFile    = "profile"
	ProfileName    = "ensemble"
	propertiesFile = "client.properties" // for Java's clients
)

// ProfileFile returns the file with the superuser's profile that init has written into dir.
func ProfileFile(dir string) string { return filepath.Join(dir, "client", profileFile) }

// clientFiles returns the files of a client that has a key and certificate in the file own, without ca.pem.
func clientFiles(own, text, connect string) []file {
	to := "the servers"
	profile := "# For zooid's own tools: ZOOID_CONFIG=THIS_FILE zooid cli -profile " + ProfileName + "\n" +
		"# or as a part of ~/.config/zooid/profiles, with the paths of the files.\n"
	if connect != "" {
		to = connect
		profile += ProfileName + ".server=" + connect + "\n"
	} else {
		profile += "#" + ProfileName + ".server=" + net.JoinHostPort("HOST", strconv.Itoa(SecurePort)) + "\n"
	}
	profile += ProfileName + ".tls.ca=ca.pem\n" + ProfileName + ".tls.cert=" + own + "\n"
	properties := "# For Java's clients and zooid cli -client-configuration, in this folder. Connect to " + to + "\n" +
		"zookeeper.client.secure=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\n" +
		"zookeeper.ssl.keyStore.location=" + own + "\nzookeeper.ssl.trustStore.location=ca.pem\n"
	return []file{{own, text, 0o600}, {propertiesFile, properties, 0o644}, {profileFile, profile, 0o644}}
}
