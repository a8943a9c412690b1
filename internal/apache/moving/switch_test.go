//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// TestSwitchCommand: what zooid migrate switch and tail say to wrong arguments.
func TestSwitchCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(cfg, fmt.Appendf(nil, "dataDir=%s/data\nclientPort=2181\n", dir), 0o600); err != nil {
		t.Fatal(err)
	}
	used := filepath.Join(dir, "data")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"switch -h", 0, "usage: zooid migrate switch"},
		{"switch zk1 " + dir, 2, "name an ensemble"},
		{"switch zk1 " + dir + " " + cfg, 2, "-stop or -tails"},
		{"switch -stop x -tails y zk1 " + dir + " " + cfg, 2, "-stop or -tails"},
		{"switch -listen x -stop x zk1 " + dir + " " + cfg, 2, "no flag -listen"},
		{"switch -id 0 -stop x zk1 " + dir + " " + cfg, 2, "1 to 254"},
		{"switch -stop x zk1 " + dir + " " + cfg + "x", 1, "can't read the configuration"},
		{"switch -stop x zk1 " + cfg + " " + cfg, 1, "not a directory"},
		{"switch -seed y -stop x zk1 " + dir + " " + cfg, 2, "names no other server"},
		{"seed -h", 0, "usage: zooid migrate seed"},
		{"seed", 2, "name the zoo.cfg"},
		{"seed " + cfg + "x", 1, "can't read the configuration"},
		{"seed " + cfg, 1, "read a seed"},
		{"tail -h", 0, "usage: zooid migrate tail"},
		{"tail -after 1", 2, "name Apache's dataDir"},
		{"tail -after x " + dir, 2, "want a request"},
		{"tail " + dir, 2, "want a request"},
		{"tail -after 0x1/x/a:1 " + dir, 2, "isn't a try's name"},
		{"switch -stopped 1,1 -stop x zk1 " + dir + " " + cfg, 2, "each once"},
		{"tail -after 1 " + dir, 1, "contains a directory version-2"},
	} {
		var out bytes.Buffer
		if code := run(append([]string{"migrate"}, strings.Fields(c.args)...), &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("zooid migrate %s: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
	if err := os.MkdirAll(used, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(used, "IDENTITY"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(strings.Fields("migrate switch -stop x zk1 "+dir+"/copy "+cfg), &out, &out); code != 1 ||
		!strings.Contains(out.String(), "in use") {
		t.Errorf("a data directory in use: %d, %s", code, &out)
	}
}

// TestTailCommand: the tail of a directory, which is refused while a process has a file open there.
func TestTailCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, files.Version2), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := files.CreateLog(dir, 7)
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		if code := run([]string{"migrate", "tail", "-after", "0x7", dir}, &out, &said); code != 1 ||
			!strings.Contains(said.String(), fmt.Sprintf("the process %d has ", os.Getpid())) {
			t.Errorf("exit %d, %s", code, &said)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"migrate", "tail", "-after", "0x7", dir}, &out, &said); code != 0 {
		t.Fatalf("exit %d, %s", code, &said)
	}
	printed := filepath.Join(t.TempDir(), "tail")
	if err := os.WriteFile(printed, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if tail, _, err := files.OpenTail(printed); err != nil || tail.After != 7 || tail.Last != 0 {
		t.Errorf("%+v, %v", tail, err)
	}
}

// TestTailOfAnother: a tail says whose directory it is from, and that of another server proves nothing: with several
// servers on one machine, its log may lack the last acknowledged writes.
func TestTailOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, files.Version2), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := files.CreateLog(dir, 7)
	if err == nil {
		err = errors.Join(log.Close(), os.WriteFile(filepath.Join(dir, "myid"), []byte("2\n"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	r, _ := stopping(t, "")
	tail, said, err := readTail(dir, "", proof.Request{After: 7, Try: r.try})
	if err != nil {
		t.Fatal(err)
	}
	for id, another := range map[int64]bool{1: true, 2: false} {
		e := follow.Ensemble{Members: []learner.Member{{ID: id}}}
		_, err := r.proved(&e, map[int64]ending{id: {tail, said}}, 7, nil, nil)
		if strings.Contains(fmt.Sprint(err), "from the directory of server 2") != another {
			t.Errorf("server %d: %v", id, err)
		}
	}
}

// stopping returns flags whose -stop command is run by endings.
func stopping(t *testing.T, stop string) (*switchRun, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	f := &switchRun{
		switchFlags: switchFlags{stop: stop}, try: proof.NewTry(),
		says: &sayer{w: &said, line: terminal.NewProgress(&said)},
	}
	f.words = []string{"", t.TempDir(), ""}
	return f, &said
}

// printed returns what zooid migrate tail prints.
func printed(t *testing.T, preface string, tail *files.Tail) []byte {
	t.Helper()
	b := bytes.NewBufferString(preface)
	if err := tail.Write(b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestStopCommands: each server's command gets its name and the zxid; what fails, or prints no tail, proves nothing.
func TestStopCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tail"), printed(t, "", &files.Tail{After: 9, Last: 10}),
		0o600); err != nil {
		t.Fatal(err)
	}
	f, said := stopping(t, `echo $ZK_ID $ZK_HOST $ZK_AFTER >>`+dir+`/called
case $ZK_ID in 1) echo stopped; cat `+dir+`/tail;; 2) cat `+dir+`/tail; echo no >&2; exit 3;; 3) echo nothing;; esac`)
	e := follow.Ensemble{}
	for id := int64(1); id <= 3; id++ {
		e.Members = append(e.Members, learner.Member{ID: id, Quorum: []string{fmt.Sprintf("h%d:2888", id)}})
	}
	tails, err := f.endings(t.Context(), &e, 9, nil)
	if err != nil || len(tails) != 1 || tails[1].tail == nil || tails[1].tail.Last != 10 {
		t.Errorf("%+v, %v", tails, err)
	}
	f.dropTails()
	if left, err := os.ReadDir(f.words[1]); err != nil || len(left) > 0 {
		t.Errorf("beside the copy: %v, %v", left, err)
	}
	called, err := os.ReadFile(filepath.Join(dir, "called"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 h1 0x9/" + string(f.try) + "/h1:2888\n", "2 h2 0x9/", "3 h3 0x9/"} {
		if !strings.Contains(string(called), want) {
			t.Errorf("%q was called; want %q", called, want)
		}
	}
	if s := said.String(); !strings.Contains(s, "stop server 2: the command failed: exit status 3: no") ||
		!strings.Contains(s, "stop server 3: read the command's output") {
		t.Errorf("it says %q", s)
	}
}

// TestStopMajority: with -majority, a command that hangs isn't waited for once a majority has provably stopped, unless
// its server still listens.
func TestStopMajority(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	f, said := stopping(t, `test $ZK_ID != 3 || { touch `+dir+`/hangs; while test -e `+dir+`/hangs; do sleep 0.1; done; exit 1; }
cat `+dir+`/tail`)
	f.majority = true
	end := []byte{7: 1, 19: 9, 28: 0xff, 0xff, 0xff, 0xf5} // session 1, zxid 9, closeSession
	tail := printed(t, (&proof.Testimony{Try: f.try, Last: 9, Files: proof.Files{Known: true}}).Line(),
		files.TailOf(files.Tail{After: 8, Last: 9}, end))
	if err := os.WriteFile(filepath.Join(dir, "tail"), tail, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := &stopPlan{At: 9}
	for id := int64(1); id <= 3; id++ {
		stop.Ensemble.Members = append(stop.Ensemble.Members, learner.Member{ID: id, Quorum: []string{"127.0.0.1:1"}})
	}
	enough := f.enough(t.Context(), stop)
	tails, err := f.endings(t.Context(), &stop.Ensemble, 8, enough)
	if err != nil || len(tails) != 2 || !strings.Contains(said.String(), "enough servers have stopped") ||
		strings.Contains(said.String(), "after "+stopTimeout.String()) {
		t.Fatalf("%+v, %v; it says %q", tails, err, said)
	}
	if delete(tails, 2); enough(tails) {
		t.Error("one of three is enough")
	}
	tails[2] = tails[1]
	stop.Ensemble.Members[2].Client = l.Addr().String()
	if enough(tails) {
		t.Error("the switch goes on without a server that listens")
	}
	f.majority = false
	if f.enough(t.Context(), stop) != nil {
		t.Error("without -majority, a majority is enough")
	}
}

// TestStopInterrupted: an interruption ends the commands, and is called so.
func TestStopInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, _ := stopping(t, `touch `+dir+`/$ZK_ID; exec sleep 600`)
	e := follow.Ensemble{Members: []learner.Member{{ID: 1, Quorum: []string{"h:2888"}}}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "1")); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if tails, err := f.endings(ctx, &e, 9, nil); !errors.Is(err, errInterrupted) {
		t.Errorf("%+v, %v; want %v", tails, err, errInterrupted)
	}
}

// TestSeeds: the command of each other voter gets its id and host, and the snapshot; what fails, says nothing, or says
// another digest, ends the switch, and names the servers that may have data.
func TestSeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "snapshot")
	if err := os.WriteFile(snapshot, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := filepath.Join(dir, "zoo.cfg")
	lines := "server.1=h1:1:2;3\nserver.2=h2:1:2;3\nserver.3=h3:1:2;3\nserver.4=h4:1:2:observer;3\nserver.5=h5:1:2;3\n"
	err := os.WriteFile(cfg, fmt.Appendf(nil, "dataDir=%s\ninitLimit=5\nsyncLimit=2\n%s", dir, lines), 0o600)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "myid"), []byte("2"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	server, err := config.Load(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	const digest = 0xabcdef
	try := proof.NewTry()
	for name, c := range map[string]struct {
		end  string // of the command
		says string
	}{
		"all":            {`echo a banner; echo ` + plantedLine(try, digest), ""},
		"one not":        {`test $ZOOID_ID = 5 && { echo disk full >&2; exit 3; }; echo ` + plantedLine(try, digest), "seed the Zooid server 5: the command failed: exit status 3: disk full"},
		"silent":         {``, "want the line of zooid migrate seed"},
		"another":        {`echo ` + plantedLine(try, digest+1), "want the line of zooid migrate seed"},
		"an earlier try": {`echo ` + plantedLine(proof.NewTry(), digest), "want the line of zooid migrate seed"},
	} {
		f, said := stopping(t, "")
		f.server, f.try = server, try
		called := filepath.Join(dir, name)
		f.seed = `echo $ZOOID_ID $ZOOID_HOST $(wc -c) >>"` + called + `"; ` + c.end
		err := f.seeds(t.Context(), snapshot, digest, true)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
		if c.says == "" && !strings.Contains(said.String(), "the Zooid servers [1 3 5] have the same data") {
			t.Errorf("%s: it says %q", name, said)
		}
		if fmt.Sprint(f.seeded) != "[1 3 5]" {
			t.Errorf("%s: %d may have data", name, f.seeded)
		}
		b, err := os.ReadFile(called)
		if err != nil {
			t.Fatal(err)
		}
		head := len("zooid seed 2: plant 0123456789abcdef\n")
		for _, id := range []int{1, 3, 5} {
			if want := fmt.Sprintf("%d h%d %d\n", id, id, 1<<20+head); !strings.Contains(string(b), want) ||
				strings.Count(string(b), "\n") != 3 {
				t.Errorf("%s: called %q; want %q among them", name, b, want)
			}
		}
	}
	f, _ := stopping(t, "")
	f.server, f.try, f.seed = server, try, "cat >/dev/null; echo "+plantedLine(try, digest)
	if err := f.seeds(t.Context(), snapshot, digest, false); err != nil || f.seeded != nil {
		t.Errorf("after a rehearsal: %v, %d may have data", err, f.seeded)
	}
	// What can't be removed there is reported.
	f.seeded, f.seed = []int64{1, 3, 5}, "cat >/dev/null; exit 1"
	if left := f.dropAll(t.Context(), dir); !strings.Contains(left, "[1 3 5] may have unreleased data") {
		t.Errorf("to undo: %q", left)
	}
	f.seed = "cat >/dev/null; echo " + droppedLine(try)
	if left := f.dropAll(t.Context(), dir); left != "" {
		t.Errorf("to undo: %q", left)
	}
}

// TestTailFiles: files that the operator brings are waited for until they are whole, of this try, and prove enough.
func TestTailFiles(t *testing.T) {
	t.Parallel()
	f, said := stopping(t, "")
	f.tails = t.TempDir()
	e := follow.Ensemble{Members: []learner.Member{{ID: 1, Election: []string{"h:3888"}}, {ID: 2}}}
	tail := &files.Tail{After: 9, Last: 10}
	this := printed(t, (&proof.Testimony{Try: f.try, Last: 10}).Line(), tail)
	put := func(id int, b []byte) {
		path := filepath.Join(f.tails, fmt.Sprintf("tail.%d", id))
		if err := errors.Join(os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Error(err)
		}
	}
	for name, b := range map[string][]byte{
		"half a file":        this[:len(this)-1],
		"a file without try": printed(t, "", tail),
		"an earlier try's":   printed(t, (&proof.Testimony{Try: proof.NewTry(), Last: 10}).Line(), tail),
	} {
		put(1, this)
		put(2, b)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if tails, err := f.endings(ctx, &e, 9, nil); err == nil {
			t.Errorf("%s is taken: %+v", name, tails)
		}
		cancel()
	}
	time.AfterFunc(50*time.Millisecond, func() { put(2, this) })
	if tails, err := f.endings(t.Context(), &e, 9, nil); err != nil || len(tails) != 2 {
		t.Errorf("%+v, %v", tails, err)
	}
	for _, want := range []string{"zooid migrate tail -after 0x9/" + string(f.try) + "/h:3888 ",
		"tail.2 is from another try"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it says %q; want %q", said, want)
		}
	}
}

// TestSwitchAsks: only yes goes on.
func TestSwitchAsks(t *testing.T) {
	t.Parallel()
	copied, err := follow.Open(follow.Options{Dir: t.TempDir(), Say: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	for answer, ok := range map[string]bool{
		"yes\n": true, "yes": true, " yes \r\n": true, "no\n": false, "": false, "y\n": false,
	} {
		f, _ := stopping(t, "")
		if err := f.ask(t.Context(), strings.NewReader(answer), copied); (err == nil) != ok {
			t.Errorf("%q: %v", answer, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	f, _ := stopping(t, "")
	if err := f.ask(ctx, blocked{}, copied); err == nil {
		t.Error("an interrupt goes on")
	}
}

// blocked is an operator who says nothing.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }
