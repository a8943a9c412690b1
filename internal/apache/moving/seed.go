//go:build unix

package moving

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tool/cli"
)

const seedHelp = `usage: zooid migrate seed [-drop] ZOOCFG

Makes the data directory of a new Zooid server from its standard input, which zooid migrate
switch -seed sends, so that all servers of a new ensemble start with the same data. Run it on
the server's machine, as the user that the server runs as. dataDir must not have data of Zooid
yet. A rehearsal leaves nothing there.

No server starts on the directory until switch has released it, by this command as well. Data
that was never released is replaced by the next switch.

  -drop   remove data that a switch has made and not released. Standard input isn't read

exit code: 0 done; 1 failed; 2 wrong arguments.
`

// seedFlags are the flags and arguments of zooid migrate seed.
type seedFlags struct {
	drop bool
	file string // a zoo.cfg
}

func (f *seedFlags) register(flags *flags) { flags.BoolVar(&f.drop, "drop", false, "") }

func (f *seedFlags) arguments(words []string) error {
	if len(words) != 1 {
		return errors.New("name the zoo.cfg of the new server")
	}
	f.file = words[0]
	return nil
}

func (f *seedFlags) run(_ context.Context, s cli.Streams) (int, error) {
	cfg, err := config.Load(f.file, nil)
	if err != nil {
		return exitFailed, errors.New(runbook.Text(err))
	}
	done := ""
	if f.drop {
		done, err = dropSeed(cfg)
	} else {
		done, err = obeySeed(cfg, bufio.NewReader(s.In))
	}
	if err != nil {
		return exitFailed, err
	}
	fmt.Fprintln(s.Out, done)
	return exitDone, nil
}

// dropSeed removes unreleased data of any try.
func dropSeed(cfg *config.Config) (string, error) {
	held, err := proof.Hold(cfg.Storage.DataDir, cfg.Storage.DataLogDir)
	if err != nil {
		return "", err
	}
	dropped, err := drop(cfg.Storage.DataDir)
	if err == nil && !dropped {
		err = fmt.Errorf("%s has no unreleased data of a switch", cfg.Storage.DataDir)
	}
	return "zooid seed dropped", errors.Join(err, held.Release())
}

// obeySeed reads an order and carries it out, and returns the line that confirms it.
func obeySeed(cfg *config.Config, in *bufio.Reader) (line string, err error) {
	order, err := apache.ReadSeedOrder(in)
	if err != nil {
		return "", err
	}
	dir, try := cfg.Storage.DataDir, proof.Try(order.Try)
	if !try.Valid() {
		return "", fmt.Errorf("read a seed: %q names no try", order.Try)
	}
	if done, err := proof.Released(dir, try); order.Do == apache.SeedRelease && (done || err != nil) {
		return releasedLine(try), err // its server may run, and hold the directory
	}
	held, err := proof.Hold(dir, cfg.Storage.DataLogDir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	switch order.Do {
	case apache.SeedRelease:
		return releasedLine(try), proof.Release(dir, try)
	case apache.SeedDrop:
		if done, err := proof.Released(dir, try); done || err != nil {
			return "", errors.Join(err, fmt.Errorf("%s was released: a server may have served there", dir))
		}
		if m, err := proof.FindMark(dir); m == nil || m.Try != try {
			return droppedLine(try), err // it isn't there, or it is another try's
		}
		_, err := drop(dir)
		return droppedLine(try), err
	}
	return plant(cfg, in, try, order.Do == apache.SeedPlant)
}

// plant makes the data directory from a seed.
func plant(cfg *config.Config, in io.Reader, try proof.Try, stays bool) (string, error) {
	o := apache.ImportOptions{Dir: cfg.Storage.DataDir, LogDir: cfg.Storage.DataLogDir, Voters: voters(cfg)}
	_, err := drop(o.Dir) // no server has ever served it
	if err == nil && stays {
		err = newMark(try, &o).Put(o.Dir)
	}
	if err != nil {
		return "", err
	}
	done, err := apache.PlantSeed(in, serverid.Raft(cfg.Quorum.MyID), o, stays)
	if err == nil {
		err = newensemble.HandOver(o.Dir, o.LogDir)
	}
	if err != nil {
		if stays {
			_, dropped := drop(o.Dir)
			err = errors.Join(err, dropped)
		}
		return "", err
	}
	return plantedLine(try, done.Digest), nil
}

// newMark returns the mark for a directory that a try makes on this machine.
func newMark(try proof.Try, o *apache.ImportOptions) *proof.Mark {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed machine"
	}
	return &proof.Mark{Try: try, At: time.Now().UTC(), By: "zooid migrate, on " + host, LogDir: o.LogDir}
}

// The lines that zooid migrate seed prints for zooid migrate switch.
func plantedLine(try proof.Try, digest uint64) string {
	return fmt.Sprintf("zooid seed planted: %s %016x", try, digest)
}
func releasedLine(try proof.Try) string { return "zooid seed released: " + string(try) }
func droppedLine(try proof.Try) string  { return "zooid seed dropped: " + string(try) }

// voters returns the ids in the consensus protocol of the voting servers in a configuration; none for a standalone
// server.
func voters(cfg *config.Config) (ids []uint64) {
	if !cfg.Quorum.Distributed {
		return nil
	}
	for _, m := range cfg.Quorum.Members.Servers {
		if !m.Observer {
			ids = append(ids, serverid.Raft(m.ID))
		}
	}
	return ids
}

// seedTimeout is how long a -seed command may take to transfer a large tree and have it read twice.
const seedTimeout = 10 * time.Minute

// seeds has all other voters of the new ensemble make their data directories from a snapshot at the same time. Each
// must confirm that the tree with this digest is on its disk.
func (r *switchRun) seeds(ctx context.Context, snapshot string, digest uint64, stay bool) error {
	began := time.Now()
	order := apache.SeedOrder{Do: apache.SeedRehearse, Try: string(r.try)}
	r.seeded = nil
	if stay { // after an error they may have the data although their answers were lost
		order.Do, r.seeded = apache.SeedPlant, idsOf(r.others())
	}
	if err := r.orderAll(ctx, order, snapshot, plantedLine(r.try, digest)); err != nil {
		return err
	}
	r.says.say(fmt.Sprintf("the Zooid servers %d have the same data on their disks; it took %.1f s", idsOf(r.others()),
		time.Since(began).Seconds()))
	return nil
}

// orderAll has each other voter of the new ensemble obey an order, all at once. Each must confirm it with a line.
func (r *switchRun) orderAll(ctx context.Context, order apache.SeedOrder, snapshot, confirms string) error {
	return errors.Join(r.orderEach(ctx, order, snapshot, confirms)...)
}

// orderEach is orderAll, and returns the error of each, or nil.
func (r *switchRun) orderEach(ctx context.Context, order apache.SeedOrder, snapshot, confirms string) []error {
	others := r.others()
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i := range others {
		wg.Go(func() {
			if err := r.seedOne(ctx, &others[i], order, snapshot, confirms); err != nil {
				errs[i] = fmt.Errorf("%s the Zooid server %d: %w", verb(order.Do), others[i].ID, err)
			}
		})
	}
	wg.Wait()
	return errs
}

// verb says what an order does to a server.
func verb(do string) string {
	if do == apache.SeedPlant || do == apache.SeedRehearse {
		return "seed"
	}
	return do
}

// others returns the voters of the new ensemble other than this command's server.
func (r *switchRun) others() (all []config.Member) {
	for _, m := range r.server.Quorum.Members.Servers {
		if !m.Observer && m.ID != r.server.Quorum.MyID {
			all = append(all, m)
		}
	}
	return all
}

func idsOf(members []config.Member) (all []int64) {
	for i := range members {
		all = append(all, members[i].ID)
	}
	return all
}

// seedOne runs the operator's command for one server.
func (r *switchRun) seedOne(ctx context.Context, m *config.Member, order apache.SeedOrder,
	snapshot, confirms string) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := operatorCommand(ctx, r.seed, zooidServer(m))
	cmd.Stdout, cmd.Stderr = &atMost{w: &out, left: saidMax}, &atMost{w: &said, left: saidMax}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	sent := order.Send(in, snapshot)
	in.Close()
	if err := cmd.Wait(); err != nil { // more helpful than the write error of a command that ended early
		return fmt.Errorf("the command failed: %w%s", err, quoted(&said))
	}
	if sent != nil {
		return sent
	}
	if !slices.Contains(strings.Split(strings.ReplaceAll(out.String(), "\r", ""), "\n"), confirms) {
		return fmt.Errorf("want the line of zooid migrate seed (%s) from the command, but it printed %q%s", confirms,
			out.String(), quoted(&said))
	}
	return nil
}
