package small

import (
	"errors"
	"testing"
)

func TestAdd(t *testing.T) {
	b := &Box{}
	fine := func() error { return nil }
	if err := b.Add(3, fine); err != nil || b.n != 3 {
		t.Fatal(err, b.n)
	}
	if err := b.Add(20, fine); !errors.Is(err, errFull) {
		t.Fatal(err)
	}
	if err := b.Add(1, func() error { return errWrite }); !errors.Is(err, errWrite) {
		t.Fatal(err)
	}
}

func TestSum(t *testing.T) {
	if n := Sum(4); n != 10 {
		t.Fatal(n)
	}
}

func TestOdd(t *testing.T) {
	if !(&Box{n: 1}).Odd() {
		t.Fatal("1 isn't odd")
	}
}

func TestWait(t *testing.T) {
	if got := Wait(); got != "word" {
		t.Fatal(got)
	}
}

func TestBroken(t *testing.T) {
	t.Fatal("always")
}
