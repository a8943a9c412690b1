//go:build unix

package moving

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/tool/cli"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const backHelp = `usage: zooid migrate back -quorum ADDRESS -election ADDRESS -from IP[,IP...] [flags] ZOOCFG
       zooid migrate back -check ZOOCFG

Keeps Apache servers up to date with a Zooid server, so that an ensemble can go back to
them. It runs beside the server of ZOOCFG, whose data directory it reads, and changes
nothing there. The Apache servers take it for the leader of their ensemble:

  peerType=observer
  standaloneEnabled=false
  server.0=HOST:QUORUMPORT:ELECTIONPORT:participant
  server.1=apache1:2888:3888:observer

It needs as much memory as two more copies of the tree.

  -quorum ADDRESS    listen there for the observers (HOST:QUORUMPORT)
  -election ADDRESS  tell them there who leads (HOST:ELECTIONPORT)
  -from IP,...       the observers' addresses. Others are refused: an observer gets
                     everything, whatever the ACLs say
  -peer-tls-cert FILE, -peer-tls-ca FILE, -peer-tls-password-file FILE
                     the observers have sslQuorum=true: this side's certificate and key, which
                     name HOST; who signs the observers' certificates, which they must show; the
                     files' password. Files are PEM, JKS or PKCS12
  -peer-sasl-user USER, -peer-sasl-password-file FILE
                     the observers have quorum.auth.learnerRequireSasl=true: the user and the
                     password of their section QuorumLearner, for DIGEST-MD5
  -peer-sasl-keytab FILE, -peer-sasl-principal NAME/HOST@REALM, -peer-sasl-observers PRINCIPAL,...
                     the same for Kerberos: the key of this side, whose HOST is that of server.0;
                     the principals of the observers
  -id N              Zooid's id in their configuration (0). Theirs must be higher
  -check             say what has no form at Apache, of what the server has and of
                     what its configuration permits, and end

To go back: stop the Zooid servers, the one of ZOOCFG last, as the leader. Then interrupt this
command (SIGINT or SIGTERM): it hands over the end of the log and says what the observers have.
zooid migrate return does all of that, and starts Apache, as one command.

exit code: 0 the observers have everything, or -check has looked; 1 they haven't, or it isn't known; 2 wrong
arguments.
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

// observed takes what the flags say about observers: with their addresses, if they are to be led.
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

// A backRun is a run of zooid migrate back.
type backRun struct {
	backFlags
	program *Program
}

func (r *backRun) arguments(words []string) error {
	if err := r.observed(!r.check); err != nil {
		return err
	}
	return r.zooCfg(words)
}

func (r *backRun) run(ctx context.Context, s cli.Streams) (int, error) {
	cfg, err := config.LoadAny(r.file, nil)
	if err != nil {
		return exitFailed, err
	}
	if r.check {
		return r.program.checkBack(cfg, s.Out)
	}
	var mu sync.Mutex
	r.o.Say = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(s.Err, time.Now().Format(time.DateTime), terminal.OneLine(terminal.Visible(text)))
	}
	if err := r.listen(cfg, r.program); err != nil {
		return exitFailed, err
	}
	defer socket.CloseListener(r.o.Election)
	defer socket.CloseListener(r.o.Quorum)
	done, err := back.Run(ctx, r.o)
	if err != nil {
		return exitFailed, err
	}
	if done.Strangers > 0 {
		fmt.Fprintf(s.Out, "%d sessions have passwords of Zooid's, which Apache refuses: their clients are told that they have expired\n",
			done.Strangers)
	}
	fmt.Fprintln(s.Out, done)
	return exitDone, nil
}
