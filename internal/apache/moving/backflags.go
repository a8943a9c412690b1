//go:build unix

package moving

import (
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/config"
)

const backHelp = `usage: zooid migrate back -quorum ADDRESS -election ADDRESS -from IP[,IP...] [flags] ZOOCFG
       zooid migrate back -check ZOOCFG

Keeps Apache servers up to date with a Zooid server, so that clients can be moved back to
them. Run it on the machine of the Zooid server with ZOOCFG: it reads that server's data
directory, and changes nothing in it. To the Apache servers it is the leader of their
ensemble, in which they are observers:

  peerType=observer
  standaloneEnabled=false
  server.0=HOST:QUORUMPORT:ELECTIONPORT:participant
  server.1=apache1:2888:3888:observer

It needs as much memory as two more copies of the tree.

  -quorum ADDRESS    listen for the observers at this address (HOST:QUORUMPORT)
  -election ADDRESS  tell them at this address who leads (HOST:ELECTIONPORT)
  -from IP,...       the observers' addresses. All others are refused, because an observer
                     gets all data, whatever the ACLs say
  -peer-tls-cert FILE, -peer-tls-ca FILE, -peer-tls-password-file FILE
                     for observers with sslQuorum=true: this command's certificate and key,
                     which must name HOST; the authorities that sign the observers'
                     certificates; the password of these files. Files are PEM, JKS or PKCS12
  -peer-sasl-user USER, -peer-sasl-password-file FILE
                     for observers with quorum.auth.learnerRequireSasl=true and DIGEST-MD5:
                     the user and the password in their section QuorumLearner
  -peer-sasl-keytab FILE, -peer-sasl-principal NAME/HOST@REALM, -peer-sasl-observers PRINCIPAL,...
                     the same for Kerberos: this command's key and principal, whose HOST is
                     that of server.0, and the observers' principals
  -id N              Zooid's id in their configuration (0), which must be lower than theirs
  -check             report what Apache can't represent of the server's data and of what its
                     configuration permits, and exit

To move back, stop the Zooid servers, that of ZOOCFG last and while it leads. Then interrupt
this command (SIGINT or SIGTERM): it sends the observers the end of the log, and prints what
they have. zooid migrate return does all of that, and starts Apache, as one command.

exit code: 0 the observers have everything, or -check found no obstacle; 1 they don't have
everything, or it isn't known, or -check found an obstacle; 2 wrong arguments.
`

// backFlags are the flags and arguments of zooid migrate back, which zooid migrate return shares.
type backFlags struct {
	quorum, election, from string
	check                  bool
	tls                    back.PeerTLS
	logins                 back.PeerSASL
	file                   string // a zoo.cfg
	o                      back.Options
}

func (f *backFlags) register(flags *flags) {
	flags.StringVar(&f.quorum, "quorum", "", "")
	flags.StringVar(&f.election, "election", "", "")
	flags.StringVar(&f.from, "from", "", "")
	flags.Int64Var(&f.o.ID, "id", 0, "")
	flags.BoolVar(&f.check, "check", false, "")
	f.tls.Register(flags.FlagSet)
	f.logins.Register(flags.FlagSet)
}

// observed processes the flags about observers: with their addresses, if they will be led.
func (f *backFlags) observed(led bool) (err error) {
	if led {
		if f.o.From, err = back.Addresses(f.from); err != nil {
			return err
		}
	}
	if f.o.TLS, err = f.tls.Config(); err != nil {
		return err
	}
	if f.o.Logins, err = f.logins.Logins(); err != nil {
		return err
	}
	switch {
	case led && (f.quorum == "" || f.election == ""):
		return errors.New("name the addresses of -quorum and -election")
	case f.o.ID < 0 || f.o.ID > 254:
		return fmt.Errorf("-id %d: want 0 to 254", f.o.ID)
	}
	return nil
}

// zooCfg takes the argument.
func (f *backFlags) zooCfg(words []string) error {
	if len(words) != 1 {
		return errors.New("name the zoo.cfg of a Zooid server")
	}
	f.file = words[0]
	return nil
}

// listen sets the options that depend on the server, and listens for the observers. The caller closes both listeners.
func (f *backFlags) listen(server *config.Config, p *Program) error {
	f.o.Reconfigure = p.Reconfigure
	return f.o.Prepare(server, f.quorum, f.election)
}
