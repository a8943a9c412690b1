package newensemble

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// An Act documents one recovery.
type Act struct {
	At         time.Time `json:"at"`
	What       string    `json:"what"` // one of the Act constants
	Server     uint64    `json:"server"`
	By         string    `json:"by"`
	Why        string    `json:"why"`
	OldCluster string    `json:"oldCluster"`
	NewCluster string    `json:"newCluster,omitempty"`
	Had        *Survivor `json:"had,omitempty"` // what the server had
	Aside      string    `json:"aside"`         // the folder with its former files
}

// Values of Act.What.
const (
	ActNew   = "a new ensemble was made of this server's data"
	ActAside = "this server's data was set aside, for it to join a new ensemble"
	// ActFounded is what a server does by itself, ActOrdered what an operator ordered.
	ActFounded = "an ensemble was founded with this server's data"
	ActOrdered = "an operator ordered this server to found an ensemble"
)

const (
	// RecordName is the file in a data directory that records each Act, one JSON object per line. It is append-only.
	RecordName = "RECOVERED"
	// WhyMax bounds Act.By and Act.Why, in bytes.
	WhyMax = 1 << 10
	// actMax bounds the file of an Act, in bytes; most of it is the membership.
	actMax = 4 << 20
)

// NewAct describes an action on a survivor. The folder for its files is named after its cluster and the time.
func NewAct(what string, server uint64, s *Survivor, by, why string, now time.Time) (*Act, error) {
	if strings.TrimSpace(why) == "" || len(why) > WhyMax || len(by) > WhyMax {
		return nil, fmt.Errorf("note why: the reason must have 1 to %d bytes, and the name at most as many", WhyMax)
	}
	folder := "aside-recovered-"
	if what == ActFounded {
		folder = "aside-founded-"
	}
	return &Act{
		At: now.UTC(), What: what, Server: server, By: by, Why: why, OldCluster: s.ClusterID, Had: s,
		Aside: folder + s.ClusterID + "-" + now.UTC().Format("20060102T150405.000Z"),
	}, nil
}

func readAct(path string) (*Act, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read what a recovery was about: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, actMax+1))
	if err != nil {
		return nil, fmt.Errorf("read what a recovery was about: %w", err)
	}
	a := &Act{}
	err = json.Unmarshal(b, a)
	if err == nil && (len(b) > actMax || !strings.HasPrefix(a.Aside, "aside-") || a.Aside != filepath.Base(a.Aside)) {
		err = errors.New("it names no folder for the former data")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s, which a recovery has written: %w", path, err)
	}
	return a, nil
}

// wholeLines returns the whole lines of a record. What follows was cut short by a crash or a full disk, so that the act
// wasn't done.
func wholeLines(record []byte) []byte { return record[:bytes.LastIndexByte(record, '\n')+1] }

// record appends the act to the record, unless it is already there.
func (a *Act) record(dataDir string) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	path := filepath.Join(dataDir, RecordName)
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("note what was done: %w", err)
	}
	if bytes.HasSuffix(before, line) {
		return nil // a crash happened after an earlier record
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note what was done: %w", err)
	}
	whole := int64(len(wholeLines(before)))
	if err = f.Truncate(whole); err == nil {
		_, err = f.WriteAt(line, whole)
	}
	if err := errors.Join(err, f.Sync(), f.Close(), storage.OS{}.SyncDir(dataDir)); err != nil {
		return fmt.Errorf("note what was done in %s: %w", path, err)
	}
	return nil
}

// SetAside moves a survivor's data aside, so that the server starts with an empty disk and joins the new ensemble.
func (s *Survivor) SetAside(a *Act) error {
	if err := a.record(s.Place.DataDir); err != nil {
		return err
	}
	if err := moveNotes(s.Place.LogDir, filepath.Join(s.Place.LogDir, a.Aside)); err != nil {
		return fmt.Errorf("set aside what is noted about log entries: %w", err)
	}
	return storage.SetAside(s.Place.DataDir, s.Place.LogDir, strings.TrimPrefix(a.Aside, "aside-"))
}
