package terminal

import (
	"bufio"
	"context"
	"io"
)

// ReadLine reads a line, unless ctx ends first. At the end of the input it returns what there is.
func ReadLine(ctx context.Context, in io.Reader) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
