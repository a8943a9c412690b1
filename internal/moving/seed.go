//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/migrate"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/terminal"
)

const seedHelp = `usage: zooid migrate seed ZOOCFG

Makes the data directory of a new Zooid server of what zooid migrate switch sends to its standard
input (-seed), so that all servers of a new ensemble begin with the same data. Run it on the
server's machine, as the user that the server runs as. dataDir must have no data of Zooid's. In
a rehearsal nothing of it stays.

exit code: 0 the data directory is made, or was rehearsed; 1 it can't be; 2 wrong arguments.
`

// runSeed runs zooid migrate seed, which makes a data directory from a seed.
func runSeed(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("zooid migrate seed", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
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
	o := migrate.ImportOptions{Dir: cfg.Storage.DataDir, LogDir: cfg.Storage.DataLogDir, Voters: voters(cfg)}
	done, err := migrate.PlantSeed(stdin, uint64(cfg.Quorum.MyID), o)
	if err != nil {
		fmt.Fprintln(stderr, "zooid migrate seed:", terminal.Visible(err.Error()))
		return 1
	}
	fmt.Fprintln(stdout, seededLine(done.Digest))
	return 0
}

// seededLine returns the line that zooid migrate seed prints for zooid migrate switch.
func seededLine(digest uint64) string { return fmt.Sprintf("zooid seed planted: %016x", digest) }

// voters returns the ids of the voting servers in a configuration; none for a standalone server.
func voters(cfg *config.Config) (ids []uint64) {
	if !cfg.Quorum.Distributed {
		return nil
	}
	for _, m := range cfg.Quorum.Members.Servers {
		if !m.Observer {
			ids = append(ids, uint64(m.ID))
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
	var mu sync.Mutex
	var failed []error
	var wg sync.WaitGroup
	f.seeded = nil
	for _, m := range f.others() {
		wg.Go(func() {
			err := f.seedOne(ctx, &m, snapshot, digest, stay)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("seed the Zooid server %d: %w", m.ID, err))
			}
			if stay { // after an error it may have the data without having been heard
				f.seeded = append(f.seeded, m.ID)
			}
		})
	}
	wg.Wait()
	slices.Sort(f.seeded)
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	f.says.say(fmt.Sprintf("the Zooid servers %d have the same data on their disks; it took %.1f s", idsOf(f.others()),
		time.Since(began).Seconds()))
	return nil
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
func (f *switchFlags) seedOne(ctx context.Context, m *config.Member, snapshot string, digest uint64, stay bool) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := operatorCommand(ctx, f.seed, zooidServer(m))
	cmd.Stdout, cmd.Stderr = &atMost{b: &out, left: saidMax}, &atMost{b: &said, left: saidMax}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	sent := migrate.SendSeed(in, snapshot, stay)
	in.Close()
	if err := cmd.Wait(); err != nil { // says more than the write error of a command that ended early
		return fmt.Errorf("the command failed: %w: %s", err, strings.TrimSpace(said.String()))
	}
	if sent != nil {
		return sent
	}
	if !slices.Contains(strings.Split(strings.ReplaceAll(out.String(), "\r", ""), "\n"), seededLine(digest)) {
		return fmt.Errorf("the command has not printed what zooid migrate seed prints (%s), but %q: %s", seededLine(digest),
			out.String(), strings.TrimSpace(said.String()))
	}
	return nil
}
