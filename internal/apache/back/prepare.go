package back

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/wordclient"
)

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
		return errors.New("the server has no plaintext client port, which is needed to ask for its zxid: give it one on 127.0.0.1")
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

// String describes the observers' data.
func (d Done) String() string {
	return fmt.Sprintf("the observers %d have all data: %d znodes and %d sessions at zxid %#x; Apache's digest of the tree is %#x, equal to Zooid's",
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
