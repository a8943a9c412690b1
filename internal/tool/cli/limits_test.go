package cli

import (
	"strings"
	"testing"
)

// TestLimits: a superuser sets limits, which hold at once; others see them and don't change them.
func TestLimits(t *testing.T) {
	t.Parallel()
	at := startZooid(t)
	super := []string{"-server", at, "-auth", "digest:super:test"}
	other := []string{"-server", at, "-auth", "digest:ann:x"}
	nobody := []string{"-server", at}
	for _, c := range []struct {
		who      []string
		line     string
		code     int
		out, err string // parts of what is printed
	}{
		{other, "limits list", 0, "", "no limits are set"},
		{other, "limits set /app value=3", exitFailed, "", "only a superuser can set the first limits"},
		{nobody, "limits set /app value=3", exitFailed, "", "only a superuser can set the first limits"},
		{super, "limits set /app value=x", exitFailed, "", "value=\"x\""},
		{super, "limits set /app watches=3", exitFailed, "", "isn't a limit of the scope path"},
		{super, "limits set app value=3", exitFailed, "", "want connection, address, identity, or a path"},
		{super, "limits set /app value=3 depth=5", 0, "", ""},
		{super, "limits set /app value=4", 0, "", ""},
		{super, "limits set identity connections=5", 0, "", ""},
		{other, "limits get /app", 0, "depth=5 value=4\n", ""},
		{other, "limits list", 0, "/app depth=5 value=4\nidentity connections=5\n", ""},
		{other, "limits set /app value=9", exitFailed, "", "insufficient permission"},
		{other, "limits delete /app", exitFailed, "", "insufficient permission"},
		{other, "create /app 1234", 0, "", ""},
		{other, "set /app 12345", exitFailed, "", "quota has exceeded : /app\n  hint: the limit value=4 of /app refuses it; limits get /app shows it, limits set changes it\n"},
		{other, "create -p /app/b/c/d/e/f", exitFailed, "", "quota has exceeded : /app/b/c/d/e/f\n  hint: the limit depth=5 of /app refuses it"},
		{other, "create -p /app/b/c 12345", exitFailed, "", "quota has exceeded : /app/b/c\n  hint: the limit value=4 of /app refuses it"},
		{super, "limits set /app/b children=1", 0, "", ""},
		{other, "create -p /app/b/c", 0, "", ""},
		{other, "create /app/b/d", exitFailed, "", "quota has exceeded : /app/b/d\n  hint: the limit children=1 of /app/b refuses it"},
		{other, "create -p /app/b/d/e", exitFailed, "", "quota has exceeded : /app/b/d\n  hint: the limit children=1 of /app/b refuses it"},
		{super, "limits delete /app/b", 0, "", ""},
		{other, "txn set /app 12345", exitFailed, "", "hint: listquota shows the quotas of the znodes above, limits list the limits"},
		{super, "limits delete /app", 0, "", ""},
		{super, "limits delete /app", exitFailed, "", "no limits of its own"},
		{other, "limits get /app", exitFailed, "", "no limits of its own"},
		{other, "set /app 12345", 0, "", ""},
	} {
		out, errs, code := once("", append(append([]string(nil), c.who...), strings.Fields(c.line)...)...)
		if code != c.code || !strings.Contains(out, c.out) ||
			!strings.Contains(strings.ToLower(errs), strings.ToLower(c.err)) {
			t.Errorf("%s: code %d, %q, %q; want %d, %q, %q", c.line, code, out, errs, c.code, c.out, c.err)
		}
	}
	chrooted := []string{"-server", at + "/app", "-auth", "digest:super:test", "limits", "list"}
	if _, errs, code := once("", chrooted...); code != exitFailed ||
		!strings.Contains(errs, "outside of the chroot /app") {
		t.Errorf("limits below a chroot: %d, %s", code, errs)
	}
}
