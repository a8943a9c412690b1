package proof

import (
	"reflect"
	"testing"
)

// FuzzTestimony: whatever a command has printed, a testimony that is found says the same when it is printed again.
func FuzzTestimony(f *testing.F) {
	whole := (&Testimony{Try: NewTry(), Last: 7, Ports: map[string]Port{"h:1": Closed}, Files: Files{Known: true}}).Line()
	f.Add([]byte("Welcome\n" + whole + "zooid tail 1\n"))
	f.Add([]byte(whole[:len(whole)-3]))
	f.Add([]byte(testimonyMark + "bnVsbA==\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		said, err := FindTestimony(b)
		if (said == nil) == (err == nil) {
			t.Fatalf("%+v, %v", said, err)
		}
		if err != nil {
			return
		}
		again, err := FindTestimony([]byte("noise\n" + said.Line()))
		if err != nil || !reflect.DeepEqual(said, again) {
			t.Errorf("%+v, then %+v, %v", said, again, err)
		}
	})
}

// FuzzRequest: a request that is understood is the same when it is parsed again.
func FuzzRequest(f *testing.F) {
	f.Add((&Request{After: 0x500000123, Try: NewTry(), Ports: []string{"zk1:2888", "[fe80::1]:3888"}}).String())
	f.Add("0x0/0123456789abcdef/h:1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRequest(text)
		if err != nil {
			return
		}
		again, err := ParseRequest(r.String())
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%q: %+v, then %+v, %v", text, r, again, err)
		}
	})
}
