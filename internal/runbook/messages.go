package runbook

import (
	"context"
	"log/slog"
)

// messages has the codes of log lines from packages that run in the simulator, which know no codes. TestCodes compares
// each text with the line that is logged.
var messages = map[string]string{
	"the last batch of the log was cut short by a crash; it was never acknowledged and is dropped":                                                                                                  "ZD-2010",
	"a damaged snapshot was skipped, and an older one is used; check the disk":                                                                                                                      "ZD-2011",
	"the data directory was new or empty and the log was not; the log has everything, and this server continues. If the data directory's file system is not mounted, stop this server and mount it": "ZD-2012",
	"the file IDENTITY is missing; it is written again from the log. If nobody removed it, check the file system":                                                                                   "ZD-2013",
	"a crash interrupted the installation of a peer's snapshot, which is discarded":                                                                                                                 "ZD-2014",
	"a snapshot could not be written; it will be tried again, and the log is kept until then":                                                                                                       "ZD-2030",
	"old snapshots and log segments could not be removed; the disk fills up if this persists":                                                                                                       "ZD-2031",
	"this server can't read its newest snapshot, which another server needs; it writes a new one. Check the disk":                                                                                   "ZD-2033",
	"an election could not be started": "ZD-3001",
	"this leader's clock differs from those of most other servers, whose time it uses; set the clock, and keep it synchronized": "ZD-3002",
	"a leader's clock was ahead: the ensemble's time is set back to that of most servers":                                       "ZD-3003",
	"this server no longer leads, and there is no leader":                                                                       "ZD-3004",
	"this server has lost its leader":                                                                                           "ZD-3005",
	"there has been no leader for too long; client connections are closed until there is one":                                   "ZD-3006",
	"this server hears the leader, but the leader hasn't heard this server for too long; client connections are closed until it does. Check the network from this server to the leader, and whether this server is still a member": "ZD-3007",
	"this server was stalled; every session gets its full timeout again":                                                                                                                           "ZD-3008",
	"this leader could not hear the other servers for a while; every session gets its full timeout again":                                                                                          "ZD-3010",
	"this server doesn't know whether its clients' sessions are alive: their connections are closed, so that they find another server. Its disk hangs, it is busy, or it doesn't reach the leader": "ZD-3009",
	"a peer's connection can't be accepted; if this continues, raise the limit of open files":                                                                                                      "ZD-3101",
	"too many connections to the peer port have not authenticated; the oldest is closed":                                                                                                           "ZD-3102",
	"a connection to the peer port was closed":                                                                                                                                                     "ZD-3103",
	"a peer was refused": "ZD-3104",
	"a peer was refused, because another server has its id": "ZD-3131",
	"a peer can't be reached; this server keeps trying":     "ZD-3105",
	"a server that doesn't know the ensemble's secret asks to join: if it has lost its data, run 'zooid allow-join' with its id on this machine, or give it the secret by quorum.secretFile": "ZD-3110",
	"a server is admitted: it now has the ensemble's secret":                                                                      "ZD-3111",
	"the servers can't agree on a secret":                                                                                         "ZD-3112",
	"the servers have not agreed on a secret yet":                                                                                 "ZD-3113",
	"a peer's raft message was not accepted":                                                                                      "ZD-3120",
	"a peer forwarded requests that can't be decoded":                                                                             "ZD-3121",
	"a peer's list of members can't be decoded":                                                                                   "ZD-3122",
	"a request to follow, by a server that isn't a member, can't be decoded":                                                      "ZD-3123",
	"too many servers that aren't members have asked to follow since this server started; no more are accepted":                   "ZD-3124",
	"peers have named too many servers that aren't members; this server connects to no more of them until the membership changes": "ZD-3130",
	"a server that isn't a member asks to follow, but its id ends with the same byte as another server's, so their sessions would have the same ids; give it another myid": "ZD-3125",
	"a peer's certificate is no longer accepted; its connection is closed":                                                                                                 "ZD-3127",
	"the connection to a server of another lineage is closed":                                                                                                              "ZD-3128",
	"the file that records the owner of this data directory can't be written; it will be tried again. Until then, start no other server on a copy of the directory":        "ZD-3230",
	"the file that records the ensemble's lineage can't be written; it will be tried again":                                                                                "ZD-3129",
	"a member refuses to let this server follow":                                                                                                                           "ZD-3126",
	"the membership in /zookeeper/config can't be parsed; it is ignored":                                                                                                   "ZD-3208",
	"a member's data directory is empty: the member gives up its vote, joins, and gets the vote back once it has caught up":                                                "ZD-3220",
	"a server that lost its data could not be removed; it will be tried again":                                                                                             "ZD-3221",
	"a change of membership is given up: too few of its voters have caught up, or a new one can't vote yet; make sure that they run, and ask again":                        "ZD-3222",
	"a change of membership was not accepted; it will be tried again":                                                                                                      "ZD-3223",
	"the addresses of former members can't be read; if one of them still has a vote, name it in the configuration":                                                         "ZD-3224",
	"the members' addresses could not be written; it will be tried again":                                                                                                  "ZD-3225",
	"a server's version is too old for this ensemble: the server is sent nothing until it is upgraded, and its data stays as it is":                                        "ZD-3301",
	"a peer's snapshot was not accepted":                                                                                                                                   "ZD-3310",
	"a snapshot could not be sent; it will be tried again":                                                                                                                 "ZD-3311",
	"a peer's snapshot arrived incomplete; what arrived is kept":                                                                                                           "ZD-3312",
	"this server has acknowledged log entries that it doesn't have: an older copy of its disk was put back. It can't continue with that: stop it, set its data aside by 'zooid recover -set-aside', and start it; it then joins again":                                "ZD-3136",
	"servers that don't run have been given votes: start them; until then, fewer of the other voters may fail":                                                                                                                                                        "ZD-3227",
	"another server has founded an ensemble too, and neither has a leader: a server that hasn't begun yet may decide it, so start all of them. If this continues, stop both, run 'zooid recover -set-aside' on each and 'zooid found' on one of them, and start both": "ZD-3229",
	"the list of servers that have lost their data could not be written; it will be tried again":                                                                                                                                                                      "ZD-3226",
	"not all members have the same rule for the ids of a scheme in ACLs: the rule in force stays; where there is none, ACLs of the scheme are refused. Only the leader knows the rules of the other members":                                                          "ZD-3140",
	"a server asks to join and isn't admitted: no empty server with its id answers at its address in the membership. If that address is wrong, correct it by reconfig; if this server is alone, correct the server lines in its zoo.cfg and start it again":           "ZD-3135",
	"a peer's snapshot is refused, and this server stays behind the others; if this repeats, upgrade this server if the peer runs a newer version, else make another server lead (restart the peer), and check the peer's disk":                                       "ZD-3313",
	"this server and another one have different states after the same entry: all voters are asked, and a majority decides":                                                                                                                                            "ZD-3401",
	"a majority has this server's state, so this server continues":                         "ZD-3402",
	"invariant broken: an applied write is not the first unanswered one of its connection": "ZD-3407",
	"a peer's decisions to skip entries can't be decoded":                                  "ZD-3410",
	"a peer waits for a decision to skip an entry that this server has applied: it can't be skipped here. Stop the servers that have decided, run 'zooid skip-entry -withdraw' on each, and start all with the version that runs here; or run 'zooid skip-entry' here, which describes another way": "ZD-3411",
	"a decision to skip an entry could not be adopted; without it, the entry is not sent to this server":                                                       "ZD-3412",
	"the ensemble skips a log entry by its operators' decision: this server adopts the decision":                                                               "ZD-3413",
	"nothing is applied from this entry on until all members have decided to skip it: run 'zooid skip-entry' on the servers that are missing, and start them":  "ZD-3414",
	"a peer's decision to skip an entry is void: the entry is applied":                                                                                         "ZD-3415",
	"a log entry is skipped, as all members have decided":                                                                                                      "ZD-3416",
	"a skipped entry is not sent to a server that doesn't confirm that it will skip it: upgrade the server if its version is too old; its data stays as it is": "ZD-3417",
	"refused a request: it exceeds a limit (see docs/limits.md)":                                                                                               "ZD-4006",
	"a client exceeds a limit":                                                               "ZD-4021",
	"a limit can't be parsed and is not in force":                                            "ZD-4022",
	"there are too many limits: none of them is in force":                                    "ZD-4023",
	"a dry run of a policy's rule would deny a request":                                      "ZD-4024",
	"this server is overloaded: its clients' writes wait long for the log":                   "ZD-4026",
	"a connection is closed: its oldest request has waited as long as its session's timeout": "ZD-4025",
	"a connection is closed because memory is short":                                         "ZD-4030",
	"a request was slow":                       "ZD-4018",
	"a client's requests were accepted slowly": "ZD-4027",
	"a client was slow to read its answers":    "ZD-4028",
	"a client failed to authenticate":          "ZD-4007",
	"a client's credential could not be checked; its connection is closed, so that it tries again": "ZD-4017",
	"a client failed to log in; its connection stays open (allowSaslFailedClients)":                "ZD-4008",
	"a client failed to log in": "ZD-4009",
}

// OfMessage returns the code of a log line that doesn't carry one itself, or "".
func OfMessage(message string) string { return messages[message] }

// Handler returns a handler that adds codes to the log lines of these packages.
func Handler(h slog.Handler) slog.Handler { return &coder{h} }

// coder is a slog.Handler that adds codes.
type coder struct{ slog.Handler }

// Handle writes a line, adding its code if it has none.
func (h *coder) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		if code := messages[r.Message]; code != "" {
			r = r.Clone()
			r.AddAttrs(slog.String("code", code))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds codes as well.
func (h *coder) WithAttrs(attrs []slog.Attr) slog.Handler { return &coder{h.Handler.WithAttrs(attrs)} }

// WithGroup returns a handler that adds codes as well.
func (h *coder) WithGroup(name string) slog.Handler { return &coder{h.Handler.WithGroup(name)} }
