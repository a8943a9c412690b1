// Package keeperbench reads the files of ClickHouse's keeper-bench, which describe the znodes to set up and the
// requests to send, and draws requests from them.
//
//	file.go      the contents of a file
//	parse.go     reading the YAML
//	requests.go  reading its requests
//	draw.go      drawing requests
package keeperbench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A File is a keeper-bench file: what to set up, what to request, and how.
type File struct {
	Name        string
	Concurrency int           // unanswered requests over all connections
	Iterations  int64         // 0 means any number
	Limit       time.Duration // 0 is no limit
	Tolerant    bool          // continue after errors
	Hosts       []Host
	Setup       []*SetupNode
	requests    mixture
	Ignored     []string // keys that have no effect here
}

// A Host is an address and the number of sessions to open there.
type Host struct {
	Addr     string
	Sessions int
	Timeout  time.Duration
}

// A SetupNode is a znode that is created before the requests, Repeat times, each with a name drawn from Name.
type SetupNode struct {
	Name     Text
	Data     *Text // nil is no data
	Repeat   int
	Children []*SetupNode
}

// sizeMax bounds the file: keeper-bench files have a few hundred lines.
const sizeMax = 1 << 20

// Read reads a keeper-bench file.
func Read(file string) (*File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read workload: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, sizeMax+1))
	if err == nil && len(b) > sizeMax {
		err = fmt.Errorf("more than %d bytes; this isn't a keeper-bench file", sizeMax)
	}
	if err != nil {
		return nil, fmt.Errorf("read workload %s: %w", file, err)
	}
	w, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("read workload %s: %w", file, err)
	}
	w.Name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return w, nil
}
