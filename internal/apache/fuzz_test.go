package apache

import (
	"bufio"
	"bytes"
	"os"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
)

// FuzzSeed: whatever a server gets as a seed, an order is the same when it is sent again, and a rehearsal leaves
// nothing.
func FuzzSeed(f *testing.F) {
	state, report, err := files.Load(files.Options{Dir: writeApache(f, 4, some())})
	if err != nil {
		f.Fatal(err)
	}
	state.GoLive()
	state.Complete()
	o := ImportOptions{Dir: f.TempDir(), Voters: []uint64{1, 2}}
	var seed bytes.Buffer
	order := SeedOrder{SeedRehearse, "0123456789abcdef"}
	o.Copy = func(snapshot string, _ uint64, _ bool) error { return order.Send(&seed, snapshot) }
	made, err := o.Make(state, report.Epoch)
	if err == nil {
		err = made.Rehearse()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed.Bytes())
	f.Add(seed.Bytes()[:seed.Len()/2])
	f.Add([]byte(seedMark + "drop 0123456789abcdef\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReader(bytes.NewReader(b))
		order, err := ReadSeedOrder(in)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := (SeedOrder{order.Do, order.Try}).Send(&again, os.DevNull); err != nil {
			t.Fatal(err)
		}
		if same, err := ReadSeedOrder(bufio.NewReader(&again)); err != nil || same != order {
			t.Errorf("%+v, then %+v, %v", order, same, err)
		}
		dir := t.TempDir()
		done, err := PlantSeed(in, 1, ImportOptions{Dir: dir, Voters: []uint64{1, 2}}, false)
		if (done == nil) == (err == nil) {
			t.Errorf("%+v, %v", done, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("it leaves %v, %v", left, err)
		}
	})
}
