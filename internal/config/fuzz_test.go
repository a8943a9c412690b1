package config

import "testing"

// FuzzLoad gives any text as zoo.cfg: Load answers, and what it accepts is complete.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"dataDir=/d\nclientPort=2181\n", "server.1=[::1]:1:2;2181\nserver.2=b:1:2|c:1:2:observer;;3",
		"a=\\u0041\\\n b",
		"\\", "=\n:", "4lw.commands.whitelist=*\nautopurge.purgeInterval=5d\n", "authProvider.1=x\nsuperUser.1=y",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		props, err := parseProperties(text)
		if err != nil {
			_ = err.Error()
			return
		}
		for i := range props { // no file of the machine is to be read
			switch props[i].key {
			case "dataDir":
				props[i].value = dir
			case "dynamicConfigFile":
				props[i].value = dir + "/missing"
			}
		}
		c, bad := newLoader("zoo.cfg").run(props, []string{string(text)})
		if (c == nil) == (bad == nil) {
			t.Fatalf("config %v, error %v", c, bad)
		}
		if bad != nil {
			_ = bad.Error()
			return
		}
		if c.Storage.DataDir == "" || c.TickTime <= 0 || c.Sessions.MinTimeout > c.Sessions.MaxTimeout {
			t.Fatalf("incomplete: %+v", c)
		}
		for _, w := range c.Warnings {
			_ = w.String()
		}
	})
}

// FuzzMembers gives any text as a membership and as a reconfig request: what is accepted reads back as itself.
func FuzzMembers(f *testing.F) {
	f.Add("server.1=a:1:2;2181\nversion=5", "server.2=b:1:2;2181", "1")
	f.Add("server.1=[fe80::1%lo]:1:2:observer|b:3:4;;1", "x.2=[::]:1:2;[::]:5;6,3=c:1:2;1", "1,,9")
	f.Fuzz(func(t *testing.T, text, joining, leaving string) {
		m, err := ParseMembers(text)
		if err != nil {
			return
		}
		checkReadsBack(t, m)
		if next, err := m.Change(joining, leaving); err == nil {
			checkReadsBack(t, next)
		}
	})
}

func checkReadsBack(t *testing.T, m Members) {
	again, err := ParseMembers(m.String())
	if err != nil || again.String() != m.String() {
		t.Fatalf("%q reads back as %q, %v", m, again, err)
	}
}
