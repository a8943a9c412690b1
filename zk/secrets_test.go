package zk_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// TestSecretsArePrintedNowhere prints what carries a secret in every usual way.
func TestSecretsArePrintedNowhere(t *testing.T) {
	t.Parallel()
	const secret = "geheim-4711"
	raw := fmt.Sprint([]byte(secret))
	auth := zk.Auth{Scheme: "digest", Auth: []byte(secret)}
	session := zk.Session{ID: 0x1234, Passwd: []byte(secret)}
	login := zk.DigestMD5("alice", secret)
	options := zk.Options{Auth: []zk.Auth{auth}, Resume: session, SASL: login}
	for _, v := range []any{
		auth, &auth, session, &session, login, options, &options, []zk.Auth{auth}, map[string]zk.Session{"a": session},
	} {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		for _, text := range []string{
			fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), fmt.Sprint(v),
			log.String(),
		} {
			if strings.Contains(text, secret) || strings.Contains(text, strings.Trim(raw, "[]")) ||
				strings.Contains(text, fmt.Sprintf("%#v", []byte(secret))) {
				t.Errorf("%T is printed as %s", v, text)
			}
		}
	}
	if got := fmt.Sprint(session); got != "0x1234" {
		t.Errorf("a session is printed as %s", got)
	}
}

// TestMultiResultErr compares as errors do: nil is success.
func TestMultiResultErr(t *testing.T) {
	t.Parallel()
	c, err := zk.Open(t.Context(), zktest.Start(t, zktest.Options{}).Connect(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	results, err := c.MultiRead(t.Context(), zk.GetOp("/"), zk.GetOp("/none"), zk.ChildrenOp("/"))
	if err != nil || len(results) != 3 {
		t.Fatalf("%+v, %v", results, err)
	}
	if results[0].Err != nil || !errors.Is(results[1].Err, zk.ErrNoNode) || results[2].Err != nil {
		t.Errorf("%v, %v, %v; want success, NoNode, success", results[0].Err, results[1].Err, results[2].Err)
	}
}
