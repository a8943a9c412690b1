package matrix

import (
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// packets returns the possible contents of an auth packet: scheme and credential.
func packets() [][2]string {
	return [][2]string{
		{"digest", "carl:secret"}, {"digest", "carl"}, {"digest", ":secret"}, {"digest", "carl:"}, {"digest", ""},
		{"digest", ":"},
		{"digest", "carl:secret:more"}, {"digest", "ann:secret"}, {"digest", superUser}, {"Digest", "carl:secret"},
		{"ip", ""}, {"ip", "10.0.0.1"}, {"world", "anyone"}, {"auth", ""}, {"auth", "ann"}, {"super", ""},
		{"super", "super:test"},
		{"sasl", "ann"}, {"sasl", ""}, {"x509", "CN=ann"}, {"x509", ""}, {"foo", "x"}, {"", ""}, {"ensemble", "x"},
		{"ip?", "x"}, {"sasl*", "ann"},
	}
}

// A login is an auth packet sent by a kind of client, and its outcome.
type login struct {
	name   string
	who    identity
	packet [2]string
}

func logins() []login {
	var all []login
	for _, who := range identities() {
		for _, p := range packets() {
			all = append(all, login{fmt.Sprintf("addauth %s %q, by %s", p[0], p[1], who.name), who, p})
		}
	}
	return all
}

// play logs in on a new connection and returns the outcome: the code, then the client's identities, and what "auth"
// stands for in an ACL that the client sets; or that the connection was closed.
func (l *login) play(at place, path string) (string, error) {
	c, err := connect(at, l.who)
	if err != nil {
		return "", err
	}
	defer c.close()
	code, err := c.prove(l.packet[0], l.packet[1])
	if err != nil {
		return "closed", nil
	}
	steps := one(jute.OpWhoAmI, nil)
	steps = append(steps,
		single(jute.MultiOp{
			Op: jute.OpCreate, Path: path, ACL: parseList("31 auth: | 1 world:anyone"), Flags: jute.ModeEphemeral,
		})...)
	steps = append(steps, one(jute.OpGetACL, (&jute.PathRequest{Path: path}).Append)...)
	answers, err := c.ask(steps, func(jute.WatcherEvent) {})
	if err != nil {
		return fmt.Sprintf("%s, then closed", code.String()), nil
	}
	return fmt.Sprintf("%s, %s", code.String(), (&answer{steps: answers}).String()), nil
}
