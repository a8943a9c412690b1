//go:build unix

package moving

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
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
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const seedHelp = `usage: zooid migrate seed [-drop] ZOOCFG

Makes the data directory of a new Zooid server of what zooid migrate switch sends to its standard
input (-seed), so that all servers of a new ensemble begin with the same data. Run it on the
server's machine, as the user that the server runs as. dataDir must have no data of Zooid's. In
a rehearsal nothing of it stays.

No server starts on the directory until switch releases it, by the same command. What isn't
released is replaced by the next try.

  -drop   remove what a switch has made and not released, and read nothing

exit code: 0 done; 1 it can't be; 2 wrong arguments.
`

// runSeed runs zooid migrate seed, which makes a data directory from a seed.
func runSeed(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("zooid migrate seed", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	drop := flags.Bool("drop", false, "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, seedHelp)
		return 0
	}
	if err == nil && flags.NArg() != 1 {
		err = errors.New("name the zoo.cfg of the new server")
	}
	if err != nil {
		fmt.Fprintf(stderr, "zooid migrate seed: %v\n\n%s", err, seedHelp)
		return 2
	}
	cfg, err := config.Load(flags.Arg(0), nil)
	if err != nil {
		fmt.Fprintln(stderr, "zooid migrate seed:", runbook.Text(err))
		return 1
	}
	done := ""
	if *drop {
		done, err = dropSeed(cfg)
	} else {
		done, err = obeySeed(cfg, bufio.NewReader(stdin))
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid migrate seed:", terminal.Visible(serverid.Text(err.Error())))
		return 1
	}
	fmt.Fprintln(stdout, done)
	return 0
}

// dropSeed removes what wasn't released, of any try.
func dropSeed(cfg *config.Config) (string, error) {
	held, err := proof.Hold(cfg.Storage.DataDir, cfg.Storage.DataLogDir)
	if err != nil {
		return "", err
	}
	dropped, err := proof.Drop(cfg.Storage.DataDir)
	if err == nil && !dropped {
		err = fmt.Errorf("%s has no data of a switch that isn't released", cfg.Storage.DataDir)
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
		_, err := proof.Drop(dir)
		return droppedLine(try), err
	}
	return plant(cfg, in, try, order.Do == apache.SeedPlant)
}

// plant makes the data directory from a seed.
func plant(cfg *config.Config, in io.Reader, try proof.Try, stays bool) (string, error) {
	o := apache.ImportOptions{Dir: cfg.Storage.DataDir, LogDir: cfg.Storage.DataLogDir, Voters: voters(cfg)}
	_, err := proof.Drop(o.Dir) // nobody has ever served it
	if err == nil && stays {
		err = newMark(try, &o).Put(o.Dir)
	}
	if err != nil {
		return "", err
	}
	done, err := apache.PlantSeed(in, serverid.Raft(cfg.Quorum.MyID), o, stays)
	if err != nil {
		if stays {
			_, dropped := proof.Drop(o.Dir)
			err = errors.Join(err, dropped)
		}
		return "", err
	}
	return plantedLine(try, done.Digest), nil
}

// newMark returns the mark of a directory that a try makes on this machine.
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

// seeds makes each other voter of the new ensemble make its data directory from a snapshot, all at once. Each must
// confirm that it has the tree with this digest on its disk.
func (f *switchFlags) seeds(ctx context.Context, snapshot string, digest uint64, stay bool) error {
	began := time.Now()
	order := apache.SeedOrder{Do: apache.SeedRehearse, Try: string(f.try)}
	f.seeded = nil
	if stay { // after an error they may have the data without having been heard
		order.Do, f.seeded = apache.SeedPlant, idsOf(f.others())
	}
	if err := f.orderAll(ctx, order, snapshot, plantedLine(f.try, digest)); err != nil {
		return err
	}
	f.says.say(fmt.Sprintf("the Zooid servers %d have the same data on their disks; it took %.1f s", idsOf(f.others()),
		time.Since(began).Seconds()))
	return nil
}

// orderAll has each other voter of the new ensemble obey an order, all at once. Each must confirm it with a line.
func (f *switchFlags) orderAll(ctx context.Context, order apache.SeedOrder, snapshot, confirms string) error {
	others := f.others()
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i := range others {
		wg.Go(func() {
			if err := f.seedOne(ctx, &others[i], order, snapshot, confirms); err != nil {
				errs[i] = fmt.Errorf("%s the Zooid server %d: %w", verb(order.Do), others[i].ID, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// verb says what an order does to a server.
func verb(do string) string {
	if do == apache.SeedPlant || do == apache.SeedRehearse {
		return "seed"
	}
	return do
}

// others returns the voters of the new ensemble other than this command's server.
func (f *switchFlags) others() (all []config.Member) {
	for _, m := range f.server.Quorum.Members.Servers {
		if !m.Observer && m.ID != f.server.Quorum.MyID {
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
func (f *switchFlags) seedOne(ctx context.Context, m *config.Member, order apache.SeedOrder,
	snapshot, confirms string) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := operatorCommand(ctx, f.seed, zooidServer(m))
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
	if err := cmd.Wait(); err != nil { // says more than the write error of a command that ended early
		return fmt.Errorf("the command failed: %w%s", err, quoted(&said))
	}
	if sent != nil {
		return sent
	}
	if !slices.Contains(strings.Split(strings.ReplaceAll(out.String(), "\r", ""), "\n"), confirms) {
		return fmt.Errorf("the command has not printed what zooid migrate seed prints (%s), but %q%s", confirms, out.String(),
			quoted(&said))
	}
	return nil
}
