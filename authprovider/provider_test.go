package authprovider

import (
	"slices"
	"strings"
	"testing"
)

type nothing struct{ Provider }

func TestRegister(t *testing.T) {
	t.Parallel()
	Register("test.Nothing", func() Provider { return nothing{} })
	if p, err := Open("test.Nothing"); p != (nothing{}) || err != nil {
		t.Errorf("open: %v, %v", p, err)
	}
	if _, err := Open("test.Other"); err == nil || !strings.Contains(err.Error(), "test.Other") {
		t.Errorf("open one that isn't there: %v", err)
	}
	if !slices.Contains(Names(), "test.Nothing") {
		t.Errorf("names: %v", Names())
	}
	for _, name := range []string{"", "test.Nothing"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is registered", name)
				}
			}()
			Register(name, func() Provider { return nothing{} })
		}()
	}
}
