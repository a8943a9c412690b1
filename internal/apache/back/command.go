package back

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/wordclient"
)

const help = `usage: zooid migrate back -quorum ADDRESS -election ADDRESS -from IP[,IP...] [flags] ZOOCFG
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

// Command runs zooid migrate back and returns the exit code. check implements -check, for a zoo.cfg.
func Command(args []string, reconfigure tree.Reconfigure, check func(file string, stdout, stderr io.Writer) int,
	stdout, stderr io.Writer) int {
	var quorum, election, from string
	var look bool
	o := Options{Reconfigure: reconfigure}
	flags := flag.NewFlagSet("zooid migrate back", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&quorum, "quorum", "", "")
	flags.StringVar(&election, "election", "", "")
	flags.StringVar(&from, "from", "", "")
	flags.Int64Var(&o.ID, "id", 0, "")
	flags.BoolVar(&look, "check", false, "")
	var secure PeerTLS
	secure.register(flags)
	var logins PeerSASL
	logins.register(flags)
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, help)
		return 0
	}
	if err == nil && !look {
		o.From, err = Addresses(from)
	}
	if err == nil {
		o.TLS, err = secure.Config()
	}
	if err == nil {
		o.Logins, err = logins.Logins()
	}
	switch {
	case err != nil:
	case !look && (quorum == "" || election == ""):
		err = errors.New("name the addresses of -quorum and -election")
	case o.ID < 0 || o.ID > 254:
		err = fmt.Errorf("-id %d: want 0 to 254", o.ID)
	case flags.NArg() != 1:
		err = errors.New("name the zoo.cfg of a Zooid server")
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid migrate back: %v\n\n%s", err, help)
		return 2
	}
	if look {
		return check(flags.Arg(0), stdout, stderr)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flags.Arg(0), quorum, election, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "zooid migrate back:", terminal.Visible(err.Error()))
		return 1
	}
	return 0
}

// Addresses parses the addresses given with -from.
func Addresses(text string) (all []netip.Addr, err error) {
	for part := range strings.SplitSeq(text, ",") {
		a, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("-from %q: want the IP addresses of the observers", text)
		}
		all = append(all, a.Unmap())
	}
	return all, nil
}

// Prepare fills in the options from the server's zoo.cfg, and listens at the addresses of -quorum and -election. The
// caller closes both listeners.
func (o *Options) Prepare(cfg *config.Config, quorum, election string) (err error) {
	if o.Dirs = []string{cfg.Storage.DataDir}; cfg.Storage.DataLogDir != cfg.Storage.DataDir {
		o.Dirs = append(o.Dirs, cfg.Storage.DataLogDir)
	}
	client := cfg.Client
	if client.Port < 0 {
		return errors.New("the server has no plaintext client port, at which it can be asked how far it is: give it one on 127.0.0.1")
	}
	if ip, err := netip.ParseAddr(client.Host); err != nil || ip.IsUnspecified() {
		client.Host = "127.0.0.1"
	}
	o.Ask = Asker(client.String())
	if o.Quorum, err = net.Listen("tcp", quorum); err != nil {
		return err
	}
	if o.Election, err = net.Listen("tcp", election); err != nil {
		return errors.Join(err, socket.CloseListener(o.Quorum))
	}
	return nil
}

func run(ctx context.Context, o Options, file, quorum, election string, stdout, stderr io.Writer) error {
	cfg, err := config.LoadAny(file, nil)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	o.Say = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(stderr, time.Now().Format(time.DateTime), terminal.OneLine(terminal.Visible(text)))
	}
	if err := o.Prepare(cfg, quorum, election); err != nil {
		return err
	}
	defer socket.CloseListener(o.Election)
	defer socket.CloseListener(o.Quorum)
	done, err := Run(ctx, o)
	if err != nil {
		return err
	}
	if done.Strangers > 0 {
		fmt.Fprintf(stdout, "%d sessions have passwords of Zooid's, which Apache refuses: their clients are told that they have expired\n",
			done.Strangers)
	}
	fmt.Fprintln(stdout, done)
	return nil
}

// String describes what the observers have.
func (d Done) String() string {
	return fmt.Sprintf("the observers %d have everything: %d znodes and %d sessions at zxid %#x; Apache's digest of the tree is %#x, as Zooid's",
		d.Observers, d.Znodes, d.Sessions, uint64(d.Zxid), d.Digest)
}

// askTime is how long a server may take to answer; answerMax bounds the answer.
const (
	askTime   = 2 * time.Second
	answerMax = 4 << 10
)

// Asker returns a function that asks the server at a client address.
func Asker(address string) func(context.Context) (Answer, error) {
	return func(ctx context.Context) (Answer, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		text, err := wordclient.Word(ctx, nil, address, "srvr", answerMax)
		if err != nil {
			return Answer{}, err
		}
		return ParseAnswer(text)
	}
}
