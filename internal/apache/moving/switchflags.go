//go:build unix

package moving

import "errors"

const switchHelp = `usage: zooid migrate switch [flags] ENSEMBLE DIR ZOOCFG

Replaces a running Apache ZooKeeper ensemble with a Zooid server, which takes over all data,
sessions and ephemeral znodes. ENSEMBLE and DIR are as for zooid migrate follow: the copy in
DIR is made or brought up to date first. ZOOCFG is the zoo.cfg of the Zooid server, whose
dataDir must not have data of Zooid yet. The steps are:

  1. wait until the copy has caught up and its digests equal the leader's
  2. rehearse the import, and report what couldn't be taken back to Apache later
  3. stop Apache's servers, and check with their logs that the copy lacks nothing
  4. make the data directory from the copy
  5. start the Zooid server

Before step 5, starting Apache's servers again undoes everything. DIR/switch.journal records
the steps, and DIR/switch.log what was printed. From step 3 on, the command doesn't end when
its terminal is lost. If it was cut short, run it again: it continues, or starts over if
Apache's servers serve again.

How Apache's servers are stopped; give one of the first two:
  -stop COMMAND    run COMMAND by sh for each server, all at the same time, with ZK_ID, ZK_HOST
                   and ZK_AFTER set. It must stop the server for good, then print its tail:
                   ssh $ZK_HOST 'systemctl disable --now zookeeper &&
                       zooid migrate tail -after '$ZK_AFTER' /var/lib/zookeeper'
  -tails DIR       stop the servers yourself when the command asks for it, and write the output
                   of zooid migrate tail on each server to the file DIR/tail.ID
  -majority        the tails of a majority are enough; the machines of the others are dead, and
                   commands for them that hang are ended
  -stopped ID,…    you know that these servers have stopped. It is for servers whose open files
                   or ports can't be checked; their tails are still needed, and a server that
                   shows any sign of running is still refused

How Zooid is started:
  -start COMMAND   run COMMAND to start the Zooid server. It must return (systemctl start zooid).
                   Without it, start the server yourself when the command asks for it
  -seed COMMAND    give all voters of an ensemble the data before the first client writes. After
                   step 4, COMMAND is run by sh for each other voter in ZOOCFG, all at the same
                   time, with ZOOID_ID and ZOOID_HOST set; zooid migrate seed must get its input:
                   ssh $ZOOID_HOST zooid migrate seed /etc/zooid/zoo.cfg
                   The command of -start is then run for each of these servers and the first,
                   with the same variables:
                   ssh $ZOOID_HOST systemctl start zooid
                   Without -seed, the first server serves alone until others have joined it

  -check           end after step 2, with an estimate of how long a switch takes. DIR isn't
                   changed; what the copy lacks is kept in memory
  -yes             don't ask for confirmation before step 3
  -undo            remove the data that an interrupted switch has made and not released, here and,
                   with -seed, on the other machines. Then start Apache's servers
  -without-digests for servers older than 3.6, or with digests disabled

The flags of zooid migrate follow for the quorum ports (-id, -peer-…) and those of zooid cli
for the client ports apply, too.

exit code: 0 the Zooid server serves, or -check found no obstacle; 1 not switched, and how to
undo what was done is printed; 2 wrong arguments; 3 the Zooid server was to start and doesn't
serve: see its log.
`

// switchFlags are the flags and arguments of zooid migrate switch.
type switchFlags struct {
	followFlags
	stop, tails, start, seed               string
	majority, check, yes, undo, undigested bool
	word                                   []int64 // Apache's servers that the operator has confirmed stopped (-stopped)
}

func (f *switchFlags) register(flags *flags) {
	f.registerPeer(flags)
	flags.StringVar(&f.stop, "stop", "", "")
	flags.StringVar(&f.tails, "tails", "", "")
	flags.StringVar(&f.start, "start", "", "")
	flags.StringVar(&f.seed, "seed", "", "")
	flags.Func("stopped", "", idList(&f.word))
	flags.BoolVar(&f.majority, "majority", false, "")
	flags.BoolVar(&f.check, "check", false, "")
	flags.BoolVar(&f.yes, "yes", false, "")
	flags.BoolVar(&f.undo, "undo", false, "")
	flags.BoolVar(&f.undigested, "without-digests", false, "")
}

func (f *switchFlags) arguments(words []string) error {
	f.words = words
	switch {
	case len(words) != 3:
		return errors.New("name an ensemble, a directory and a zoo.cfg")
	case f.check && f.undo:
		return errors.New("give -check or -undo, not both")
	case !f.check && !f.undo && (f.stop == "") == (f.tails == ""):
		return errors.New("give -stop or -tails, which say how Apache's servers are stopped")
	}
	return f.checkPeer()
}
