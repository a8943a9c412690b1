// Package advice makes errors that say what to do next.
package advice

import "fmt"

// Error is an error with advice on what to do next.
type Error struct {
	err  error
	Hint string
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Add adds advice on what to do next to err, unless err is nil.
func Add(err error, format string, v ...any) error {
	if err == nil {
		return nil
	}
	return &Error{err, fmt.Sprintf(format, v...)}
}

// Errorf describes what was attempted and what happened; hint says what to do.
func Errorf(hint, format string, v ...any) error {
	return &Error{fmt.Errorf(format, v...), hint}
}
