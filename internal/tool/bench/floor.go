package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/tool/bench/floor"
)

// mainFloor runs `zooid bench floor`.
func mainFloor(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := flag.NewFlagSet("floor", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	addr := fs.String("addr", "127.0.0.1:0", "listen on `host:port`")
	dir := fs.String("dir", ".", "put the log into `path`")
	size := fs.Int("size", 128, "`bytes` of data in a get reply")
	children := fs.Int("children", 1000, "names in a list reply")
	filled := fs.Bool("filled", false, "write to a file that was written full beforehand, instead of one that only has room")
	rest, err := parseInterleaved(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, helpFloor)
		printFlags(stdout, fs)
		return nil
	}
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("floor takes no argument %q", rest[0])
	}
	s, err := floor.Open(filepath.Join(*dir, "floor.log"), *filled, *size, *children)
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(stderr, "floor: listening on %s\n", l.Addr())
	return s.Serve(ctx, l)
}
