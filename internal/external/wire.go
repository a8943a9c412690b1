package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zooid-project/zooid/authprovider"
)

// The bounds of questions and answers.
const (
	credentialBytesMax = 16 << 10 // longer credentials are refused without asking
	answerBytesMax     = 16 << 10 // longer answers are invalid
	idsMax             = 32       // ids in one answer
	idsBytesMax        = 2 << 10  // all ids together; a connection may have 4 KiB
	secondsMax         = 1 << 31  // 68 years
	refusedBytesMax    = 200      // of a refusal's reason in the log
)

// question is the question about one credential.
type question struct {
	Request    uint64 `json:"request"`
	Scheme     string `json:"scheme"`
	Credential []byte `json:"credential"` // base64
	Address    string `json:"address"`
}

// answer is the reply to a question.
type answer struct {
	Request uint64   `json:"request"`
	IDs     []string `json:"ids"`
	Super   bool     `json:"super"`
	Seconds *int64   `json:"seconds"`
	Refused *string  `json:"refused"`
}

// line returns the question as the line to send.
func (q *question) line() ([]byte, error) {
	b, err := json.Marshal(q)
	return append(b, '\n'), err
}

// parseAnswer parses the answer to a request. Errors don't show its content.
func parseAnswer(b []byte, request uint64) (*answer, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	a := &answer{}
	if err := d.Decode(a); err != nil {
		return nil, errors.New("the answer isn't a JSON object with the fields request, ids, super, seconds and refused")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the answer")
	}
	switch {
	case a.Request != request:
		return nil, fmt.Errorf("request %d was answered, not %d", a.Request, request)
	case (a.Refused != nil) == (len(a.IDs) > 0):
		return nil, errors.New("an answer has either ids or refused")
	case a.Refused != nil && (a.Super || a.Seconds != nil):
		return nil, errors.New("an answer that refuses has neither super nor seconds")
	case a.Seconds != nil && (*a.Seconds < 1 || *a.Seconds > secondsMax):
		return nil, fmt.Errorf("seconds are from 1 to %d", int64(secondsMax))
	case len(a.IDs) > idsMax:
		return nil, fmt.Errorf("the answer has %d ids, the most allowed is %d", len(a.IDs), idsMax)
	}
	size := 0
	for _, id := range a.IDs {
		if size += len(id); !isID(id) || size > idsBytesMax {
			return nil, fmt.Errorf("an id is empty or has characters that can't be printed, or all have more than %d bytes",
				idsBytesMax)
		}
	}
	return a, nil
}

// isID reports whether id is valid as the id of an identity.
func isID(id string) bool {
	return id != "" && utf8.ValidString(id) && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
}

// refusal returns the error for a refused credential. It never contains the credential.
func (a *answer) refusal(r *authprovider.Request) error {
	if len(r.Auth) > 0 && strings.Contains(*a.Refused, string(r.Auth)) {
		return errors.New("refused; the reason repeats the credential and isn't shown")
	}
	return fmt.Errorf("refused: %.*q", refusedBytesMax, *a.Refused)
}
