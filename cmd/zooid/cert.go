//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/zooid-project/zooid/internal/tool/setup"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const certHelp = `usage: zooid cert issue [-dir DIR] [-days N] server HOST…
       zooid cert issue [-dir DIR] [-days N] [-superuser] app NAME
       zooid cert renew [-dir DIR] [-days N] NAME|HOST|SERIAL
       zooid cert list [-dir DIR] [-json]
       zooid cert revoke [-dir DIR] NAME|HOST|SERIAL|./FILE

Issues and revokes certificates of the authority that 'zooid init -tls' made in DIR/ca.
It never overwrites a file: each new certificate gets a folder of its own.

issue server   issue a server's certificate, for all names and addresses in its server line:
               DIR/servers/HOST with server.pem (key and certificate), ca.pem, crl.pem
issue app      issue an application's certificate, which ACLs name as x509:CN=NAME:
               DIR/apps/NAME with app.pem, ca.pem, client.properties for Java's clients and
               profile for zooid's tools. It is valid for clients only: no server accepts
               its holder as a server. If NAME is the superuser's name, the holder is the
               superuser; that needs -superuser
renew          issue the same certificate again with a new key; the previous one stays valid
list           show whom each certificate names, when it expires, and whether it is revoked.
               It doesn't need the authority's key
revoke         revoke all certificates of a name, or one certificate, by a new revocation
               list, DIR/ca/crl.pem. An argument with a slash is the file of a certificate
               that was issued by other means. The revocation takes effect on each server
               when the server has the new list (ssl.crlFile and ssl.quorum.crlFile), without
               a restart

  -dir DIR    what 'zooid init -tls' has written, or a directory with its folder ca only;
              ` + dirDefault + `
  -days N     how many days the certificate is valid: at most 825, which is the default
  -superuser  NAME is the superuser's name (X509AuthenticationProvider.superUser)
  -json       print each certificate as a line of JSON
`

// A certCall is the command line of zooid cert.
type certCall struct {
	action          string
	dir             string
	days            int
	superuser, json bool
	given           []string // the flags, by name
	words           []string // the arguments after the action
}

// runCert issues, renews, lists and revokes certificates.
func runCert(args []string, stdout, stderr io.Writer) int {
	c := certCall{dir: dirDefault}
	if code, done := c.parse(args, stdout, stderr); done {
		return code
	}
	if err := c.check(); err != nil {
		fmt.Fprintf(stderr, "zooid cert: %v; zooid cert -h tells more\n", err)
		return 2
	}
	if err := c.run(time.Now(), stdout); err != nil {
		fmt.Fprintln(stderr, "zooid cert "+c.action+":", terminal.Visible(errorText(err)))
		return 1
	}
	return 0
}

// parse reads the command line. Flags may stand before and after the action, and only before the names.
func (c *certCall) parse(args []string, stdout, stderr io.Writer) (code int, done bool) {
	flags := flag.NewFlagSet("cert", flag.ContinueOnError)
	once := func(name string, set func(value string) error) {
		flags.Func(name, "", func(value string) error {
			if given(flags, name) {
				return errors.New("it is given twice")
			}
			return set(value)
		})
	}
	once("dir", func(value string) error {
		if c.dir = value; value == "" {
			return errors.New("it is empty")
		}
		return nil
	})
	once("days", func(value string) (err error) {
		if c.days, err = strconv.Atoi(value); err != nil || c.days < 1 || c.days > setup.DaysMax {
			return fmt.Errorf("want 1 to %d", setup.DaysMax)
		}
		return nil
	})
	flags.BoolVar(&c.superuser, "superuser", false, "")
	flags.BoolVar(&c.json, "json", false, "")
	for range 2 { // before the action, and after it
		if code, done = parseFlags(flags, certHelp, args, stdout, stderr); done {
			return code, done
		}
		if args = flags.Args(); c.action == "" && len(args) > 0 {
			c.action, args = args[0], args[1:]
		}
	}
	c.words = args
	flags.Visit(func(f *flag.Flag) { c.given = append(c.given, f.Name) })
	return 0, false
}

// check returns why the flags and words make no sense for the action.
func (c *certCall) check() error {
	takes := map[string][]string{
		"issue": {"dir", "days", "superuser"}, "renew": {"dir", "days"}, "list": {"dir", "json"}, "revoke": {"dir"},
	}
	flags, ok := takes[c.action]
	if !ok {
		return fmt.Errorf("%.40q isn't one of issue, renew, list and revoke", c.action)
	}
	for _, name := range c.given {
		found := false
		for _, flag := range flags {
			found = found || flag == name
		}
		if !found {
			return fmt.Errorf("'zooid cert %s' takes no flag -%s", c.action, name)
		}
	}
	for n, word := range c.words {
		if strings.HasPrefix(word, "-") && word != "-" {
			return fmt.Errorf("%.80q stands after %.80q: flags come before names, and no name begins with '-'", word,
				c.words[max(n-1, 0)])
		}
	}
	switch {
	case c.action == "list" && len(c.words) > 0:
		return fmt.Errorf("'zooid cert list' takes no names")
	case (c.action == "renew" || c.action == "revoke") && len(c.words) != 1:
		return fmt.Errorf("'zooid cert %s' takes one name, host or serial number", c.action)
	case c.action != "issue":
		return nil
	case len(c.words) < 2 || c.words[0] != "server" && c.words[0] != "app":
		return errors.New("'zooid cert issue' takes 'server HOST…' or 'app NAME'")
	case c.words[0] == "app" && len(c.words) != 2:
		return errors.New("'zooid cert issue app' takes one name")
	case c.words[0] == "server" && c.superuser:
		return errors.New("a server can't be a superuser: use -superuser with 'issue app'")
	}
	return nil
}

// run carries out the action.
func (c *certCall) run(now time.Time, stdout io.Writer) error {
	q := setup.Request{Dir: c.dir, Days: c.days, Superuser: c.superuser, Now: now}
	switch c.action {
	case "list":
		all, err := setup.List(c.dir, now)
		if err != nil {
			return err
		}
		return c.print(all, now, stdout)
	case "revoke":
		return c.revoke(now, stdout)
	case "renew":
		renewed, last, err := setup.Renew(q, c.words[0])
		if err != nil {
			return err
		}
		printIssued(renewed, stdout)
		fmt.Fprintf(stdout,
			"the previous one stays valid until %s; once the new one is in use, you can revoke it: zooid cert revoke -dir %s %s\n",
			last.Until.UTC().Format(time.DateOnly), c.dir, last.Serial)
		return nil
	}
	if q.App = c.words[1]; c.words[0] == "server" {
		q.App, q.Hosts = "", c.words[1:]
	}
	issued, err := setup.Issue(q)
	if err == nil {
		printIssued(issued, stdout)
	}
	return err
}

// printIssued lists the written files, and says what to do with them.
func printIssued(c setup.Certificate, stdout io.Writer) {
	fmt.Fprintf(stdout, "wrote %s: %s of %s until %s, serial number %s\n", c.Folder,
		map[string]string{"server": "the server's certificate", "application": "the application's certificate",
			"superuser": "the superuser's certificate"}[c.Usage],
		terminal.OneLine(c.Name), c.Until.UTC().Format(time.DateOnly), c.Serial)
	if c.Usage == "server" {
		fmt.Fprintln(stdout,
			"copy server.pem next to the server's own as server.pem.new, readable only for its user, and rename it: mv server.pem.new server.pem")
		return
	}
	fmt.Fprintf(stdout, "give the folder to the application only; ACLs name it as x509:%s\n", c.Subject)
}

// revoke revokes, and says how that takes effect.
func (c *certCall) revoke(now time.Time, stdout io.Writer) error {
	revoked, list, err := setup.Revoke(c.dir, c.words[0], now)
	if err != nil {
		return err
	}
	for _, one := range revoked {
		fmt.Fprintf(stdout, "revoked %s (%s), serial number %s\n", terminal.OneLine(one.Name), one.Usage, one.Serial)
	}
	fmt.Fprintf(stdout,
		"the revocation takes effect on each server once it has the new list: copy %s next to its crl.pem as crl.pem.new, and rename it: mv crl.pem.new crl.pem\n",
		list)
	fmt.Fprintln(stdout,
		"a zoo.cfg that an earlier 'zooid init' wrote without ssl.crlFile and ssl.quorum.crlFile needs both, and a restart")
	return nil
}

// endsSoon is when the list points out that a certificate ends, as zooid doctor does.
const endsSoon = 30 * 24 * time.Hour

// print prints the list of certificates.
func (c *certCall) print(all []setup.Certificate, now time.Time, stdout io.Writer) error {
	if c.json {
		for _, one := range all {
			line, err := json.Marshal(one)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(stdout, "%s\n", terminal.VisibleJSON(line)); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tUSAGE\tUNTIL\tSTATE\tSERIAL")
	for _, one := range all {
		state := "valid"
		switch left := one.Until.Sub(now); {
		case !one.Revoked.IsZero():
			state = "revoked " + one.Revoked.UTC().Format(time.DateOnly)
		case left <= 0:
			state = "over"
		case left < endsSoon:
			state = fmt.Sprintf("ends in %d days", int(left/(24*time.Hour)))
		}
		name := one.Name
		if len(one.Hosts) > 0 {
			name = strings.Join(one.Hosts, ",")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", terminal.OneLine(name), one.Usage,
			one.Until.UTC().Format(time.DateOnly), state, one.Serial)
	}
	return w.Flush()
}
