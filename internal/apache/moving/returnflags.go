//go:build unix

package moving

import (
	"errors"
	"slices"
)

const returnHelp = `usage: zooid migrate return [flags] -observers ID,ID,… ZOOCFG

Replaces Zooid with Apache servers that follow it as observers. It leads the observers itself:
end zooid migrate back first; they reconnect. Run it on the machine of the Zooid server with
ZOOCFG, which must be standalone or the leader of its ensemble. The steps are:

  1. wait until every observer is connected and has all data
  2. stop so many other Zooid servers that no majority is left without that of ZOOCFG, and check
     that it still leads after three seconds. Clients are served until here
  3. stop the remaining Zooid servers, that of ZOOCFG last
  4. send the observers the end of its log, stop them, and check that the digest of each one's
     files equals Zooid's
  5. start them as an ensemble

Before step 5, starting Zooid's servers again undoes everything. return.journal in Zooid's
dataDir records the steps, and return.log what was printed. From step 2 on, the command doesn't
end when its terminal is lost; run it in tmux or screen to see its end. If it was cut short, run
it again: it continues, or starts over if Zooid serves again.

  -quorum, -election, -from, -id, -peer-tls-…, -peer-sasl-…  as for zooid migrate back
  -observers ID,…          all Apache servers of the new ensemble
  -stop COMMAND            run COMMAND by sh for each Zooid server, with ZOOID_ID and ZOOID_HOST
                           set. It must stop the server for good:
                           ssh $ZOOID_HOST systemctl disable --now zooid
  -stop-observer COMMAND   run COMMAND by sh for each observer, all at the same time, with ZK_ID
                           and ZK_HOST set. It must stop the server, then print the digest of
                           its files:
                           ssh $ZK_HOST 'systemctl stop zookeeper &&
                               zooid migrate digest /var/lib/zookeeper'
  -start COMMAND           run COMMAND by sh for each observer, all at the same time, with ZK_ID
                           and ZK_HOST set. It must install the ensemble's zoo.cfg and start the
                           server:
                           ssh $ZK_HOST 'cp /etc/zookeeper/ensemble.cfg /etc/zookeeper/zoo.cfg &&
                               systemctl enable --now zookeeper'
  -stopped ID,…            you know that these Zooid servers have stopped, and that nothing starts
                           them. It is for servers whose ports don't answer from here; one that
                           answers is still refused
  -check                   end after step 1, with a report of what Apache can't represent
  -yes                     don't ask for confirmation before step 2

exit code: 0 Apache's servers were started, or -check found no obstacle; 1 not returned, and how
to undo what was done is printed; 2 wrong arguments; 3 Apache's servers were to start, and a
command failed.
`

// returnFlags are the flags and arguments of zooid migrate return.
type returnFlags struct {
	backFlags
	stop, stopObserver, start string
	observers                 []int64
	word                      []int64 // Zooid's servers that the operator has confirmed to have stopped (-stopped)
	yes                       bool
}

func (f *returnFlags) register(flags *flags) {
	f.backFlags.register(flags)
	flags.StringVar(&f.stop, "stop", "", "")
	flags.StringVar(&f.stopObserver, "stop-observer", "", "")
	flags.StringVar(&f.start, "start", "", "")
	flags.Func("observers", "", idList(&f.observers))
	flags.Func("stopped", "", idList(&f.word))
	flags.BoolVar(&f.yes, "yes", false, "")
}

func (f *returnFlags) arguments(words []string) error {
	slices.Sort(f.observers)
	err := f.observed(true)
	switch {
	case err != nil:
		return err
	case len(f.observers) == 0:
		return errors.New("give -observers, which names all Apache servers of the future ensemble")
	case !f.check && (f.stop == "" || f.stopObserver == "" || f.start == ""):
		return errors.New("give -stop, -stop-observer and -start, which say how servers are stopped and started")
	}
	return f.zooCfg(words)
}
