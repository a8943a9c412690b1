package doctor

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/setup"
)

// A subject is a server that nothing is wrong with, until a test plants something.
type subject struct {
	t      *testing.T
	dir    string // its folder
	file   string
	world  World
	system fstest.MapFS
	said   map[string]string // by "address word"; a duration as the answer to mntr is how far a clock is ahead
}

func healthy(t *testing.T, secure bool, hosts ...string) *subject {
	t.Helper()
	root := t.TempDir()
	s := &subject{t: t, dir: filepath.Join(root, "1"), said: map[string]string{}}
	s.file = filepath.Join(s.dir, "zoo.cfg")
	if hosts == nil {
		hosts = []string{"h1", "h2", "h3"}
	}
	if _, err := setup.Write(setup.Options{Dir: root, Hosts: hosts, TLS: secure, At: s.dir, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.system = fstest.MapFS{
		"proc/meminfo":                               {Data: []byte("MemTotal: 8000000 kB\n")},
		"proc/swaps":                                 {Data: []byte("Filename Type Size Used Priority\n")},
		"proc/sys/net/ipv4/ip_local_port_range":      {Data: []byte("32768\t60999\n")},
		"sys/kernel/mm/transparent_hugepage/enabled": {Data: []byte("always [madvise] never\n")},
	}
	s.world = World{
		System: s.system,
		Resolve: func(_ context.Context, host string) ([]string, error) {
			return []string{"10.0.0." + strings.TrimPrefix(host, "h")}, nil
		},
		Local:     func() ([]string, error) { return []string{"127.0.0.1", "10.0.0.1"}, nil },
		Listen:    func(string) error { return nil },
		OpenFiles: func() int64 { return 65536 },
		Space: func(string) (Space, error) {
			return Space{Free: 90 * gib, Total: 100 * gib, Inodes: 1000, InodesFree: 900}, nil
		},
		Fsync: func(string, int) ([]time.Duration, error) {
			return slices.Repeat([]time.Duration{time.Millisecond}, fsyncProbes), nil
		},
		FsyncPatience: time.Minute,

		Running: func(...string) bool { return false },
		Now:     time.Now,
		UID:     os.Getuid(),
		Ask: func(_ context.Context, by *access.Access, addr, word string) (string, error) {
			if by.Secure {
				addr = "TLS " + addr
			}
			if text, ok := s.said[addr+" "+word]; ok {
				if ahead, err := time.ParseDuration(text); err == nil { // a server whose clock is off by it
					text = fmt.Sprintf("zk_clock_ms\t%d\n", time.Now().Add(ahead).UnixMilli())
				}
				return text, nil
			}
			return "", errors.New("connection refused")
		},
	}
	return s
}

// serves has a server answer at an address, with its clock ahead by so much.
func (s *subject) serves(addr, ahead string) *subject {
	s.said[addr+" srvr"], s.said[addr+" mntr"] = "Zookeeper version: 3.9.5-x, built on 2026-01-01\n", ahead
	return s
}

// turns has a server answer at an address that a write of its log has been under way for so many ms, and that its loop
// turned so long ago.
func (s *subject) turns(addr string, writing, turned int) *subject {
	s.said[addr+" srvr"] = "Zookeeper version: 3.9.5-x, built on 2026-01-01\n"
	s.said[addr+" mntr"] = fmt.Sprintf("zk_fsync_in_flight_ms\t%d\nzk_last_turn_ms\t%d\n", writing, turned)
	return s
}

// snapshots has that server answer in addition that the disk has been at work on a snapshot for so many ms.
func (s *subject) snapshots(addr string, writing int) *subject {
	s.said[addr+" mntr"] += fmt.Sprintf("zk_snapshot_in_flight_ms\t%d\n", writing)
	return s
}

// logged makes data with a log of several segments, and returns the path of a file of it.
func (s *subject) logged(name string) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, "data")
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 7, SegmentSize: 4096})
	s.must(err)
	for index := uint64(1); d.Log().Stats().Segments < 3; index++ {
		term, typ := uint64(1), raftpb.EntryNormal
		s.must(d.Log().Append(&raftpb.HardState{Term: &term, Commit: &index},
			[]*raftpb.Entry{{Index: &index, Term: &term, Type: &typ, Data: make([]byte, 500)}}, true))
	}
	s.must(d.Close())
	return filepath.Join(dir, name)
}

// replace changes the configuration; with no old text it appends.
func (s *subject) replace(old, text string) {
	s.t.Helper()
	b, err := os.ReadFile(s.file)
	if err != nil || !strings.Contains(string(b), old) {
		s.t.Fatalf("%q is not in %s: %v", old, b, err)
	}
	if old == "" {
		text = string(b) + text
	} else {
		text = strings.Replace(string(b), old, text, 1)
	}
	s.write("zoo.cfg", text)
}

// list returns a revocation list whose validity ends after a time.
func (s *subject) list(number int64, ends time.Duration) string {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	issuer := &x509.Certificate{
		Subject: pkix.Name{CommonName: "issuer"}, KeyUsage: x509.KeyUsageCRLSign, SubjectKeyId: []byte{1},
	}
	end := time.Now().Add(ends)
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(number), ThisUpdate: end.Add(-time.Hour), NextUpdate: end,
	}, issuer, key)
	s.must(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list}))
}

func (s *subject) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *subject) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *subject) space(f func(*Space)) {
	s.world.Space = func(string) (Space, error) {
		v := Space{Free: 90 * gib, Total: 100 * gib, Inodes: 1000, InodesFree: 900}
		f(&v)
		return v, nil
	}
}

// TestHealthy: doctor is content with what init writes.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		s := healthy(t, secure)
		if r := Examine(&s.world, s.file, false); len(r.Findings) > 0 || len(r.Checks) != len(checks) {
			t.Errorf("TLS %t: %+v", secure, r)
		}
	}
}

// TestPlanted plants one fault at a time: doctor finds it, says what to do, and finds nothing else.
func TestPlanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		secure       bool
		check, level string
		says         string
		plant        func(s *subject)
	}{
		{"unknown key", false, "configuration", Warning, "clientProt", func(s *subject) { s.replace("", "clientProt=1\n") }},
		{"bad value", false, "configuration", Fault,
			"tickTime", func(s *subject) { s.replace("tickTime=2000", "tickTime=soon") }},
		{"no myid", false, "configuration", Fault,
			"myid", func(s *subject) { s.must(os.Remove(filepath.Join(s.dir, "data", "myid"))) }},
		{"wrong myid", false, "configuration", Fault, "id 9 has no server line",
			func(s *subject) { s.write("data/myid", "9\n") }},
		{"one quorum address twice", false, "configuration", Fault, "same quorum address",
			func(s *subject) { s.replace("h2:2888", "h3:2888") }},
		{"two voters", false, "configuration", Warning, "stops the ensemble",
			func(s *subject) { s.replace("server.3=h3:2888:3888;2181\n", "") }},
		{"no ACLs", false, "keys", Fault, "skipACL=yes", func(s *subject) { s.replace("", "skipACL=yes\n") }},
		{"all words", false, "keys", Warning,
			"4lw.commands.whitelist=*", func(s *subject) { s.replace("srvr,mntr,dirs,ruok,conf,isro", "*") }},
		{"no purge", false, "keys", Warning,
			"purgeInterval=0", func(s *subject) { s.replace("purgeInterval=1", "purgeInterval=0") }},
		{"no bound of connections", false, "keys", Warning,
			"maxClientCnxns", func(s *subject) { s.replace("maxClientCnxns=60", "maxClientCnxns=0") }},
		{"short ticks", false, "keys", Warning, "tickTime=5 ms",
			func(s *subject) { s.replace("tickTime=2000", "tickTime=5") }},
		{"no secret", false, "keys", Warning, "trust on first use",
			func(s *subject) { s.replace("quorum.secretFile", "#quorum.secretFile") }},
		{"any certificate", true, "keys", Warning,
			"ssl.quorum.hostnameVerification=false", func(s *subject) {
				s.replace("", "ssl.quorum.hostnameVerification=false\n")
			}},
		{"peers without certificates", true, "keys", Fault,
			"ssl.quorum.clientAuth=want", func(s *subject) { s.replace("", "ssl.quorum.clientAuth=want\n") }},
		{"plain peers", true, "keys", Warning,
			"portUnification", func(s *subject) { s.replace("", "portUnification=true\n") }},
		{"nobody may reconfig", false, "keys", Warning, "no superuser",
			func(s *subject) { s.replace("", "reconfigEnabled=true\n") }},
		{"one client address twice", false, "addresses", Fault, "same client address h1:2181",
			func(s *subject) { s.replace("server.2=h2:2888:3888;2181", "server.2=h2:2888:3888;h1:2181") }},
		{"loopback among others", false, "addresses", Fault,
			"loopback", func(s *subject) { s.replace("server.2=h2", "server.2=127.0.0.1") }},
		{"no such name", false, "names", Fault, "h2 doesn't resolve", func(s *subject) {
			resolve := s.world.Resolve
			s.world.Resolve = func(ctx context.Context, host string) ([]string, error) {
				if host == "h2" {
					return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
				}
				return resolve(ctx, host)
			}
		}},
		{"another machine's line", false, "names", Fault, "isn't an address of this machine", func(s *subject) {
			s.world.Local = func() ([]string, error) { return []string{"10.0.0.7"}, nil }
		}},
		{"port taken", false, "ports", Fault, "h1:2888 is taken", func(s *subject) {
			s.world.Listen = func(addr string) error {
				if addr == "h1:2888" {
					return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
				}
				return nil
			}
		}},
		{"low port", false, "ports", Fault, "this user may not listen on", func(s *subject) {
			s.world.Listen = func(addr string) error {
				if addr == "h1:2888" {
					return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}
				}
				return nil
			}
		}},
		{"admin port taken", false, "ports", Fault, "127.0.0.1:8099 is taken", func(s *subject) {
			s.replace("", "admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=8099\n")
			s.world.Listen = func(addr string) error {
				if addr == "127.0.0.1:8099" {
					return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
				}
				return nil
			}
		}},
		{"admin in the clear", false, "keys", Warning, "admin.plainRemote=true", func(s *subject) {
			s.replace("", "admin.enableServer=true\nadmin.serverAddress=0.0.0.0\nadmin.plainRemote=true\n")
		}},
		{"port of outgoing connections", false, "ports", Warning, "port 2888 is in the range", func(s *subject) {
			s.system["proc/sys/net/ipv4/ip_local_port_range"] = &fstest.MapFile{Data: []byte("2800 3000\n")}
		}},
		{"data directory open to others", false, "directories", Fault, "others may write",
			func(s *subject) { s.must(os.Chmod(filepath.Join(s.dir, "data"), 0o777)) }},
		{"data directory to look into", false, "directories", Warning, "look into it",
			func(s *subject) { s.must(os.Chmod(filepath.Join(s.dir, "data"), 0o755)) }},
		{"no log directory", false, "directories", Fault, "isn't there", func(s *subject) {
			s.replace("", "dataLogDir="+s.dir+"/log\ndatadir.autocreate=false\n")
		}},
		{"log directory is a file", false, "directories", Fault, "isn't a directory", func(s *subject) {
			s.write("log", "")
			s.replace("", "dataLogDir="+s.dir+"/log\n")
		}},
		{"another user's", false, "directories", Fault, "belongs to user",
			func(s *subject) { s.world.UID = os.Getuid() + 1 }},
		{"Apache's tree", false, "data", Fault, "Apache ZooKeeper",
			func(s *subject) {
				s.must(os.Mkdir(filepath.Join(s.dir, "data", "version-2"), 0o700))
				s.write("data/version-2/snapshot.0", "ZKSN")
			}},
		{"no data, and none may be made", false, "data", Fault,
			"db.autocreate=false", func(s *subject) { s.replace("#db.autocreate", "db.autocreate") }},
		{"log lost", false, "data", Fault, "log", func(s *subject) {
			s.write("data/IDENTITY", "zooid data directory\nformat 1\ncluster 0000000000000abc\n")
		}},
		{"a log segment is missing", false, "data", Fault, "0000000000000002.log is damaged at offset 0: the log segment is missing",
			func(s *subject) { s.must(os.Remove(s.logged("0000000000000002.log"))) }},
		{"a batch is zeroed", false, "data", Fault, "0000000000000001.log is damaged at offset", func(s *subject) {
			f, err := os.OpenFile(s.logged("0000000000000001.log"), os.O_WRONLY, 0)
			s.must(err)
			_, err = f.WriteAt(make([]byte, 512), 2*512)
			s.must(errors.Join(err, f.Close()))
		}},
		{"a file that only root may open", false, "directories", Fault, "0000000000000001.log belongs to another user",
			func(s *subject) {
				if os.Getuid() != 0 {
					s.t.Skip("this needs root")
				}
				path := s.logged("0000000000000001.log")
				s.must(os.Chown(filepath.Dir(path), 12345, 12345))
			}},
		{"a file that can't be read", false, "data", Fault, "permission denied", func(s *subject) {
			if os.Getuid() == 0 {
				s.t.Skip("root may read everything")
			}
			s.must(os.Chmod(s.logged("IDENTITY"), 0))
		}},
		{"a switch hasn't released it", false, "data", Fault, "hasn't released it", func(s *subject) {
			s.must((&proof.Mark{Try: proof.NewTry(), By: "zooid migrate, on zk1"}).Put(filepath.Join(s.dir, "data")))
		}},
		{"recovery cut short", false, "data", Fault,
			"recovery", func(s *subject) { s.must(os.Mkdir(filepath.Join(s.dir, "data", "recover-ready"), 0o700)) }},
		{"data aside", false, "data", Warning, "set aside",
			func(s *subject) { s.must(os.Mkdir(filepath.Join(s.dir, "data", "aside-x"), 0o700)) }},
		{"entry that panics", false, "data", Fault, "log entry 12", func(s *subject) {
			data := filepath.Join(s.dir, "data")
			d, err := storage.Open(storage.Options{Dir: data, ClusterID: 7})
			s.must(err)
			_, _, err = d.KeepReport(storage.Report{Index: 12, Term: 3, Data: []byte("entry"), Text: "stack"})
			s.must(err)
			s.must(d.Close())
		}},
		{"secret for all", false, "secrets", Fault, "others may read it (mode 0644)",
			func(s *subject) { s.must(os.Chmod(filepath.Join(s.dir, "secret"), 0o644)) }},
		{"short secret", false, "secrets", Fault, "has 5 characters", func(s *subject) { s.write("secret", "short\n") }},
		{"empty secret", false, "secrets", Fault, "holds no secret", func(s *subject) { s.write("secret", "# none\n") }},
		{"no secret file", false, "secrets", Fault, "can't be read",
			func(s *subject) { s.must(os.Remove(filepath.Join(s.dir, "secret"))) }},
		{"passwords for all", false, "secrets", Fault, "which holds passwords", func(s *subject) {
			s.replace("", "DigestAuthenticationProvider.superDigest=super:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
			s.must(os.Chmod(s.file, 0o644))
		}},
		{"key for all", true, "secrets", Fault, "key store",
			func(s *subject) { s.must(os.Chmod(filepath.Join(s.dir, "server.pem"), 0o644)) }},
		{"certificate over", true, "certificates", Fault, "expired on",
			func(s *subject) { s.world.Now = func() time.Time { return time.Now().AddDate(4, 0, 0) } }},
		{"certificate about to end", true, "certificates", Warning, "in 9 days", func(s *subject) {
			s.world.Now = func() time.Time { return time.Now().AddDate(0, 0, 815).Add(12 * time.Hour) }
		}},
		{"certificate of another host", true, "certificates", Fault, "doesn't name h1", func(s *subject) {
			b, err := os.ReadFile(filepath.Join(s.dir, "..", "2", "server.pem"))
			s.must(err)
			s.write("server.pem", string(b))
		}},
		{"certificate of another issuer", true, "certificates", Fault, "won't trust", func(s *subject) {
			other := healthy(s.t, true)
			b, err := os.ReadFile(filepath.Join(other.dir, "server.pem"))
			s.must(err)
			s.write("server.pem", string(b))
		}},
		{"no certificate", true, "certificates", Fault, "server.pem", func(s *subject) { s.write("server.pem", "nothing") }},
		{"revocation list out of date", true, "certificates", Fault, "list of CN=issuer is out of date since 20",
			func(s *subject) { s.write("crl.pem", s.list(1, -48*time.Hour)+s.list(2, -24*time.Hour)) }},
		{"slow disk", false, "disk", Warning, "takes 60ms", func(s *subject) {
			s.world.Fsync = func(string, int) ([]time.Duration, error) {
				return slices.Repeat([]time.Duration{60 * time.Millisecond}, fsyncProbes), nil
			}
		}},
		{"dying disk", false, "disk", Fault, "takes 2s", func(s *subject) {
			s.world.Fsync = func(string, int) ([]time.Duration, error) {
				return slices.Repeat([]time.Duration{2 * time.Second}, fsyncProbes), nil
			}
		}},
		{"hung disk", false, "disk", Fault, "the disk hangs", func(s *subject) {
			s.world.FsyncPatience = time.Millisecond
			held := make(chan struct{})
			s.t.Cleanup(func() { close(held) })
			s.world.Fsync = func(string, int) ([]time.Duration, error) {
				<-held
				return nil, syscall.EIO
			}
		}},
		{"a server whose disk hangs", false, "hangs", Fault, "server 2: a write of its log has been under way for 4.1s",
			func(s *subject) { s.turns("h2:2181", 4100, 20) }},
		{"a server whose disk is slow", false, "hangs", Warning, "server 3: a write of its log has been under way for 700ms",
			func(s *subject) { s.turns("h2:2181", 500, 500).turns("h3:2181", 700, 20) }},
		{"a server alone whose disk hangs", false, "hangs", Fault,
			"this server: a write of its log has been under way for 4.1s",
			func(s *subject) {
				s.write("zoo.cfg", "dataDir="+filepath.Join(s.dir, "data")+"\nclientPort=2181\n")
				s.world.Running = func(...string) bool { return true }
				s.turns("127.0.0.1:2181", 4100, 20)
			}},
		{"a server that stands", false, "hangs", Fault, "server 2: its main loop has been stuck for 9s",
			func(s *subject) { s.turns("h2:2181", 0, 9000) }},
		{"a snapshot that hangs", false, "hangs", Fault,
			"server 2: one operation of the disk for a snapshot has been under way for 21s",
			func(s *subject) { s.turns("h2:2181", 0, 20).snapshots("h2:2181", 21000) }},
		{"broken disk", false, "disk", Fault, "input/output error", func(s *subject) {
			s.world.Fsync = func(string, int) ([]time.Duration, error) { return nil, syscall.EIO }
		}},
		{"data in memory", false, "disk", Fault,
			"tmpfs", func(s *subject) { s.space(func(v *Space) { v.KindName, v.KindsUnstable = "tmpfs", true }) }},
		{"data on the network", false, "disk", Warning,
			"NFS", func(s *subject) { s.space(func(v *Space) { v.KindName = "NFS" }) }},
		{"copies", false, "disk", Warning, "ZFS, which copies",
			func(s *subject) { s.space(func(v *Space) { v.Copies = "ZFS" }) }},
		{"disk full", false, "space", Fault, "refuses writes",
			func(s *subject) { s.space(func(v *Space) { v.Free = gib / 2 }) }},
		{"disk filling", false, "space", Warning, "are free",
			func(s *subject) { s.space(func(v *Space) { v.Free = 15 * gib }) }},
		{"no inodes", false, "space", Fault, "inodes", func(s *subject) { s.space(func(v *Space) { v.InodesFree = 1 }) }},
		{"few inodes", false, "space", Warning, "inodes for 100 more",
			func(s *subject) { s.space(func(v *Space) { v.InodesFree = 100 }) }},
		{"few descriptors", false, "descriptors", Warning, "may open 1024 files",
			func(s *subject) { s.world.OpenFiles = func() int64 { return 1024 } }},
		{"small control group", false, "memory", Warning, "leave the server", func(s *subject) {
			s.system["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/\n")}
			s.system["sys/fs/cgroup/memory.max"] = &fstest.MapFile{Data: []byte("100000000\n")}
		}},
		{"limit above the control group", false, "memory", Fault, "the kernel would kill the server", func(s *subject) {
			s.replace("", "memory.limit=4000000000\n")
			s.system["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/\n")}
			s.system["sys/fs/cgroup/memory.max"] = &fstest.MapFile{Data: []byte("1000000000\n")}
		}},
		{"swap", false, "memory", Warning, "vm.swappiness=60", func(s *subject) {
			s.system["proc/swaps"] = &fstest.MapFile{Data: []byte("Filename Type Size Used Priority\n/dev/sda2 partition 100 0 -2\n")}
			s.system["proc/sys/vm/swappiness"] = &fstest.MapFile{Data: []byte("60\n")}
		}},
		{"huge pages", false, "huge pages", Warning, "huge pages", func(s *subject) {
			s.system["sys/kernel/mm/transparent_hugepage/enabled"] = &fstest.MapFile{Data: []byte("[always] madvise never\n")}
		}},
		{"leader's clock", false, "clocks", Fault, "server 2 leads, and its clock differs from most servers' by 15s",
			func(s *subject) {
				s.said["h2:2181 srvr"], s.said["h2:2181 mntr"] = "Zookeeper version: 3.9.5-x, built on 2026-01-01\n",
					"zk_clock_correction_ms\t15000\n"
			}},
		{"a clock ahead", false, "clocks", Warning, "differ: server 2: +4",
			func(s *subject) { s.serves("h2:2181", "4.5s").serves("h3:2181", "0s") }},
		{"a clock far behind", false, "clocks", Fault, "differ: server 3: -6",
			func(s *subject) { s.serves("h2:2181", "0s").serves("h3:2181", "-1m1s") }},
		{"own clock", false, "clocks", Fault, "this machine's clock differs",
			func(s *subject) { s.serves("h2:2181", "1h").serves("h3:2181", "1h0m1s") }},
		{"a clock ahead, by TLS", true, "clocks", Warning, "differ: server 2: +4",
			func(s *subject) { s.serves("TLS h2:2281", "4.5s") }},
		{"clock gone back", false, "clocks", Fault, "gone back", func(s *subject) {
			later := time.Now().Add(time.Hour)
			s.must(os.Chtimes(filepath.Join(s.dir, "data", "myid"), later, later))
		}},
		{"two versions", false, "versions", Warning,
			"3.9.5-zooid-1 on server 1; 3.9.5-zooid-2 on server 2", func(s *subject) {
				s.said["h1:2181 srvr"], s.said["h2:2181 srvr"] = "Zookeeper version: 3.9.5-zooid-1, built on 2026-01-01\n",
					"Zookeeper version: 3.9.5-zooid-2, built on 2026-01-01\n"
			}},
		{"something else answers", false, "versions", Fault, "something other",
			func(s *subject) { s.said["h3:2181 srvr"] = "220 mail" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t, c.secure)
			if c.secure { // the strict profile would refuse most of it
				s.replace("security.profile=strict\n", "")
			}
			c.plant(s)
			r := Examine(&s.world, s.file, false)
			found := false
			for _, f := range r.Findings {
				hit := f.Check == c.check && f.Level == c.level && strings.Contains(f.What, c.says)
				found = found || hit
				if strings.Contains(f.What, "Apache ZooKeeper") && !strings.Contains(f.Do, "docs/migration.md") {
					t.Errorf("the way to move Apache's tree isn't named: %+v", f)
				}
				if strings.Contains(f.What, "stops the ensemble") && !strings.Contains(f.Do, "three or five voters") {
					t.Errorf("the advice isn't about voters: %+v", f)
				}
				if strings.Contains(f.Do, "empty both") || advised(r.Findings, "chown") > 1 {
					t.Errorf("the advice loses data, or is given twice: %+v", r.Findings)
				}
				if f.Do == "" || f.What == "" {
					t.Errorf("it says nothing: %+v", f)
				}
				if !hit && f.Check != c.check && !(f.Check == "configuration" && f.Level == Warning) {
					t.Errorf("it was not planted: %+v", f)
				}
			}
			if !found {
				t.Errorf("not found; doctor says %+v", r.Findings)
			}
		})
	}
}

// advised returns how many findings advise something.
func advised(all []Finding, what string) (n int) {
	for _, f := range all {
		if strings.Contains(f.Do, what) {
			n++
		}
	}
	return n
}

// TestStoppedData: what the server wouldn't start on is a fault, and what it starts on is none. What it says is what
// the server says.
func TestStoppedData(t *testing.T) {
	t.Parallel()
	s := healthy(t, false)
	s.logged("")
	if r := Examine(&s.world, s.file, false); len(r.Findings) > 0 {
		t.Errorf("of good data: %+v", r.Findings)
	}
	path := s.logged("0000000000000002.log")
	s.must(os.Remove(path))
	_, err := storage.Open(storage.Options{Dir: filepath.Dir(path), ClusterID: 7})
	damage := (*storage.DamageError)(nil)
	if !errors.As(err, &damage) {
		t.Fatal(err)
	}
	r := Examine(&s.world, s.file, false)
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What, damage.Error()) ||
		!strings.Contains(r.Findings[0].Do, storage.DoMove) {
		t.Errorf("%+v; the server says %v", r.Findings, err)
	}
	s.world.Running = func(...string) bool { return true }
	s.serves("h1:2181", "0s").serves("h2:2181", "0s").serves("h3:2181", "0s")
	if r := Examine(&s.world, s.file, false); len(r.Findings) > 0 {
		t.Errorf("while it runs: %+v", r.Findings)
	}
}

// TestNobodyServes: a fault if a server runs and nobody serves; none before the first start, or if that isn't known.
func TestNobodyServes(t *testing.T) {
	t.Parallel()
	const no = "This ZooKeeper instance is not currently serving requests\n"
	const yes = "Zookeeper version: 3.9.5-x, built on 2026-01-01\n"
	for name, c := range map[string]struct {
		said    [3]string // "" for no answer
		runs    bool
		nobody  string // "" for no such fault
		unknown bool   // the address of server 3 isn't known
	}{
		"no start yet":        {},
		"one serves":          {said: [3]string{no, yes, ""}, runs: true},
		"all wait":            {said: [3]string{no, no, no}, runs: true, nobody: "server 1 says that it isn't serving requests"},
		"one waits for it":    {said: [3]string{"", "", no}},
		"two could serve":     {said: [3]string{"", no, no}, nobody: "server 1 doesn't answer, server 2 says that"},
		"it runs, all silent": {runs: true, nobody: "server 3 doesn't answer"},
		"one doesn't tell":    {said: [3]string{no, no, "srvr is not executed"}, runs: true},
		"one isn't known":     {said: [3]string{no, no, ""}, runs: true, unknown: true},
	} {
		s := healthy(t, false)
		if c.unknown {
			s.replace("server.3=h3:2888:3888;2181", "server.3=h3:2888:3888")
		}
		s.world.Running = func(...string) bool { return c.runs }
		for i, text := range c.said {
			if text != "" {
				s.said[fmt.Sprintf("h%d:2181 srvr", i+1)] = text
			}
		}
		found := ""
		for _, f := range Examine(&s.world, s.file, true).Findings {
			if strings.Contains(f.What, "nobody serves clients") && f.Level == Fault {
				found = f.What
			}
		}
		if (c.nobody == "") != (found == "") || !strings.Contains(found, c.nobody) {
			t.Errorf("%s: %q; want %q", name, found, c.nobody)
		}
	}
	s := healthy(t, false)
	s.write("zoo.cfg", "dataDir="+filepath.Join(s.dir, "data")+"\nclientPort=2181\n")
	for _, c := range []struct {
		runs   bool
		srvr   string
		nobody bool
	}{{false, "", false}, {true, "", true}, {true, no, true}, {true, yes, false}} {
		s.world.Running = func(...string) bool { return c.runs }
		if delete(s.said, "127.0.0.1:2181 srvr"); c.srvr != "" {
			s.said["127.0.0.1:2181 srvr"] = c.srvr
		}
		if r := Examine(&s.world, s.file, true); (r.Faults > 0) != c.nobody {
			t.Errorf("alone, %+v: %+v", c, r.Findings)
		}
	}
}

// TestClocks: what is said of the other servers' clocks, also of those that can't be known, is within the bounds told.
func TestClocks(t *testing.T) {
	t.Parallel()
	s := healthy(t, false, "h1", "h2", "h3", "h4", "h5")
	s.serves("h1:2181", "5h").serves("h2:2181", "-300ms").serves("h3:2181",
		"mntr is not executed because it is not in the whitelist.\n").serves("h4:2181", "zk_uptime\t5\n")
	r := Examine(&s.world, s.file, false)
	if len(r.Findings) > 0 || len(r.Clocks) != 4 {
		t.Fatalf("%+v", r)
	}
	if c := r.Clocks[0]; c.Server != 2 || c.OffsetMs-c.UncertainMs > -300 || c.OffsetMs+c.UncertainMs < -301 ||
		c.Why != "" {
		t.Errorf("a clock 300 ms behind: %+v", c)
	}
	for i, why := range []string{"whitelist", "its version", "doesn't answer"} {
		if c := r.Clocks[i+1]; !strings.Contains(c.Why, why) {
			t.Errorf("want %q: %+v", why, c)
		}
	}
	var text strings.Builder
	if err := r.print(&text); err != nil || !strings.Contains(text.String(), "server 2: -") ||
		!strings.Contains(text.String(), "server 5: unknown, it doesn't answer\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// TestSlowAnswer: what a slow answer leaves open is no finding.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	a := answers{mntr: map[string]string{"zk_clock_ms": "1700000002400"}, before: at, after: at.Add(3 * time.Second)}
	if c := clockOf(2, &a); c.OffsetMs != 900 || c.UncertainMs != 1501 || c.atLeast() != 0 {
		t.Errorf("%+v, at least %v", c, c.atLeast())
	}
	a.mntr["zk_clock_ms"] = "1700000004000"
	if c := clockOf(2, &a); c.atLeast() != 999*time.Millisecond {
		t.Errorf("%+v, at least %v", c, c.atLeast())
	}
}

// file is one of a mode and an owner.
type file struct {
	fs.FileInfo
	mode fs.FileMode
	uid  uint32
}

func (f file) Mode() fs.FileMode { return f.mode }
func (f file) Sys() any          { return &syscall.Stat_t{Uid: f.uid} }

// TestSilentServers: a server that has no quorum yet, or may not tell, is taken for one.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	s := healthy(t, false)
	s.said["h2:2181 srvr"] = "This ZooKeeper instance is not currently serving requests"
	s.said["h3:2181 srvr"] = "srvr is not executed because it is not in the whitelist.\n"
	if r := Examine(&s.world, s.file, false); len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
}

// TestExposed: which secrets others may read, or replace.
func TestExposed(t *testing.T) {
	t.Parallel()
	for _, f := range []file{{mode: 0o600, uid: 7}, {mode: 0o400, uid: 7}, {mode: 0o600}, {mode: 0o440}, {mode: 0o640}} {
		if Exposed(f) {
			t.Errorf("%04o of user %d is refused", f.mode, f.uid)
		}
	}
	for _, f := range []file{
		{mode: 0o640, uid: 7}, {mode: 0o440, uid: 7}, {mode: 0o604}, {mode: 0o660}, {mode: 0o644}, {mode: 0o601},
	} {
		if !Exposed(f) {
			t.Errorf("%04o of user %d is taken", f.mode, f.uid)
		}
	}
}

// TestDownBesideRunning: members that don't answer are told where the server itself runs.
func TestDownBesideRunning(t *testing.T) {
	t.Parallel()
	s := healthy(t, false)
	s.world.Running = func(...string) bool { return true }
	s.said["h1:2181 srvr"], s.said["h3:2181 srvr"] = "Zookeeper version: 3.9.5-x, built on 2026-01-01\n",
		"Zookeeper version: 3.9.5-x, built on 2026-01-01\n"
	r := Examine(&s.world, s.file, false)
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].What, "server 2 doesn't answer") || !r.Running {
		t.Errorf("%+v", r)
	}
}

// TestHere examines this machine: whatever it finds, the command's forms agree, and nothing is left behind.
func TestHere(t *testing.T) {
	t.Parallel()
	s := healthy(t, true, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	var text, asJSON, errs bytes.Buffer
	code := Main([]string{s.file}, &text, &errs)
	if again := Main([]string{"-json", s.file}, &asJSON, &errs); again != code || code > 1 {
		t.Errorf("exit codes %d and %d; %s", code, again, errs.String())
	}
	var r Report
	if err := json.Unmarshal(asJSON.Bytes(), &r); err != nil || len(r.Checks) != len(checks) {
		t.Errorf("%s: %v", asJSON.String(), err)
	}
	for _, f := range r.Findings {
		if f.Check == "configuration" && !strings.Contains(text.String(), f.What[:20]) {
			t.Errorf("%q is not in\n%s", f.What, text.String())
		}
	}
	list, err := os.ReadDir(filepath.Join(s.dir, "data"))
	if err != nil || len(list) != 1 {
		t.Errorf("the data directory holds %v, %v", list, err)
	}
	for _, args := range [][]string{{}, {"-x"}, {"a", "b"}} {
		if code := Main(args, &text, &errs); code != 2 {
			t.Errorf("doctor %q: exit code %d", args, code)
		}
	}
	if code := Main([]string{filepath.Join(s.dir, "none.cfg")}, &text, &errs); code != 1 ||
		!strings.Contains(text.String(), "none.cfg") {
		t.Errorf("without a file: %d", code)
	}
	if _, err := fs.Stat(Here().System, "proc"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestNoConfiguration examines a file that isn't there: nothing in it can be corrected.
func TestNoConfiguration(t *testing.T) {
	t.Parallel()
	s := healthy(t, false)
	s.must(os.Remove(s.file))
	r := Examine(&s.world, s.file, true)
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Do, "give the path") {
		t.Errorf("found %+v", r.Findings)
	}
}
