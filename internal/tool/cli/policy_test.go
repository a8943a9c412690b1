package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicy: a superuser sets a policy, which holds at once; explain names what decides.
func TestPolicy(t *testing.T) {
	t.Parallel()
	at := startZooid(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", "role pay = sasl:pay@CORP\n\ndeny write,delete below /app except pay # x\ndryrun deny read below /app\nnew below /app acl world:anyone:cdrw\n")
	bad := file("bad", "role pay = sasl:pay@CORP\ndeny below /app\n")
	large := file("large", strings.Repeat("#\n", 64<<10))
	nothing := file("nothing", "# nothing\n")
	super := []string{"-server", at, "-auth", "digest:super:test"}
	other := []string{"-server", at, "-auth", "digest:ann:x"}
	nowhere := []string{"-server", "127.0.0.1:1"}
	const line3 = "line 3 of the policy: deny write,delete below /app except pay\n"
	for _, c := range []struct {
		who      []string
		line     string
		code     int
		out, err string // parts of what is printed
	}{
		{nowhere, "policy check " + good, 0, "1 roles, 1 deny rules, 1 in a dry run, 1 ACLs of new znodes\n", ""},
		{nowhere, "policy check " + bad, exitFailed, "", "bad: line 2: want deny"},
		{nowhere, "policy check " + large, exitFailed, "", "at most 65536 are read"},
		{nowhere, "policy check " + good + "x", exitFailed, "", "no such file"},
		{other, "policy get", exitFailed, "", "there is no policy"},
		{other, "create /app 1", 0, "", ""},
		{other, "policy explain /app write", 0, "allowed by the ACL of /app: world:anyone:cdrwa\n", ""},
		{other, "policy set " + good, exitFailed, "", "only a superuser can set the first policy"},
		{super, "policy set " + bad, exitFailed, "", "bad: line 2: want deny"},
		{super, "policy set " + good, 0, "1 deny rules", ""},
		{other, "policy get", exitFailed, "", "log in as a superuser"},
		{other, "policy explain /app write", exitFailed, "", "log in as a superuser"},
		{super, "policy get", 0, "# x\n", ""},
		{other, "acl explain /app", 0, "  write data                   unknown: the ACL grants it; a policy may deny it, but you may not read it\n", ""},
		{super, "acl explain /app", 0, "  write data                   yes\n", ""},
		{super, "setAcl /zookeeper/policy world:anyone:r", 0, "", ""},
		{other, "acl explain /app", 0, "  write data                   no: " + line3, ""},
		{other, "acl explain /app", 0, "  create children              yes\n  delete children              no: " + line3, ""},
		{other, "acl explain /app", 0, "  read data and list children  yes: a dry run would deny it, line 4 of the policy: dryrun deny read below /app\n", ""},
		{other, "acl explain /app", 0, "  delete it                    no: " + line3, ""},
		{other, "acl explain /app", 0, "\nNew znodes with the ACL world:anyone:cdrwa get that of line 5 of the policy: new below /app acl world:anyone:cdrw\n", ""},
		{other, "acl explain /", 0, "  write data                   yes\n", ""},
		{other, "policy explain /app/new write sasl:bob@CORP", 0, "denied by " + line3, ""},
		{other, "policy explain /app/new read sasl:bob@CORP", exitFailed, "", "there is no znode /app/new, and no rule"},
		{super, "setAcl /zookeeper/policy auth::cdrwa", 0, "", ""},
		{other, "set /app 2", exitFailed, "", "insufficient permission : /app\n  hint: acl explain /app shows who may, policy explain which rule denies it"},
		{super, "set /app 2", 0, "", ""},
		{super, "policy explain /app write sasl:bob@CORP", 0, "denied by " + line3, ""},
		{super, "policy explain /app/x delete", 0, "denied by " + line3, ""},
		{super, "policy explain /app write sasl:bob@CORP sasl:pay@CORP", 0,
			"allowed by the ACL of /app: world:anyone:cdrwa\n", ""},
		{super, "policy explain /app write super:", 0, "allowed by a superuser's identity\n", ""},
		{super, "policy explain /app read", 0, "allowed by the ACL of /app: world:anyone:cdrwa\nwould be denied by line 4 of the policy: dryrun deny", ""},
		{super, "policy explain /app/x create", 0, "world:anyone:cdrwa becomes the ACL of line 5 of the policy", ""},
		{super, "policy explain /zookeeper/config write", 0, "denied by the ACL of /zookeeper/config: no entry", ""},
		{super, "policy explain /app all", exitFailed, "", "want one of read, write"},
		{super, "policy explain /none read", exitFailed, "", "there is no znode /none"},
		{other, "create /app/x", 0, "", ""},
		{other, "getAcl /app/x", 0, ": cdrw\n", ""},
		{super, "policy set " + nothing, 0, "0 deny rules", ""},
		{other, "set /app 3", 0, "", ""},
	} {
		out, errs, code := once("", append(append([]string(nil), c.who...), strings.Fields(c.line)...)...)
		if code != c.code || !strings.Contains(out, c.out) ||
			!strings.Contains(strings.ToLower(errs), strings.ToLower(c.err)) {
			t.Errorf("%s: code %d, %q, %q; want %d, %q, %q", c.line, code, out, errs, c.code, c.out, c.err)
		}
	}
	below := []string{"-server", at + "/app", "-auth", "digest:ann:x", "acl", "explain", "/"}
	if out, errs, _ := once("", below...); !strings.Contains(out, "write data                   unknown: the ACL grants it; a policy may deny it, if there is one: it lies outside") {
		t.Errorf("an ACL below a chroot: %s, %s", out, errs)
	}
	chrooted := []string{"-server", at + "/app", "-auth", "digest:super:test", "policy", "get"}
	if _, errs, code := once("", chrooted...); code != exitFailed ||
		!strings.Contains(errs, "outside of the chroot /app") {
		t.Errorf("the policy below a chroot: %d, %s", code, errs)
	}
}
