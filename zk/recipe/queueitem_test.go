package recipe

import (
	"bytes"
	"slices"
	"testing"
)

// The bytes are those Curator's queues write.
func TestItems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		data  string
		items []string
	}{
		{"\x00\x01\x00\x01\x01\x00\x00\x00\x02hi\x02", []string{"hi"}},
		{"\x00\x01\x00\x01\x01\x00\x00\x00\x00\x01\x00\x00\x00\x01x\x02", []string{"", "x"}},
		{"\x00\x01\x00\x01\x02", nil},
	} {
		var items [][]byte
		for _, s := range tt.items {
			items = append(items, []byte(s))
		}
		if got := encodeItems(items); string(got) != tt.data {
			t.Errorf("encode %q: %q, want %q", tt.items, got, tt.data)
		}
		if got := decodeItems([]byte(tt.data)); !slices.EqualFunc(got, items, bytes.Equal) {
			t.Errorf("decode %q: %q", tt.data, got)
		}
	}
	pair := decodeItems(encodeItems([][]byte{[]byte("one"), []byte("two")}))
	if _ = append(pair[0], "more than one"...); string(pair[1]) != "two" {
		t.Errorf("an append to an item makes the next one %q", pair[1])
	}
	for _, foreign := range []string{
		"", "plain", "\x00\x01\x00\x02\x02", "\x00\x01\x00\x01", "\x00\x01\x00\x01\x02\x02", "\x00\x01\x00\x01\x03",
		"\x00\x01\x00\x01\x01\x00\x00", "\x00\x01\x00\x01\x01\xff\xff\xff\xffx\x02", "\x00\x01\x00\x01\x01\x00\x00\x00\x01x",
	} {
		if got := decodeItems([]byte(foreign)); len(got) != 1 || string(got[0]) != foreign {
			t.Errorf("%q: %q, want it as one item", foreign, got)
		}
	}
}

// Whatever the bytes are, they are items or one item, and nothing panics.
func FuzzItems(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x01\x01\x00\x00\x00\x02hi\x02"))
	f.Add([]byte("\x00\x01\x00\x01\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		items := decodeItems(data)
		if len(items) == 1 && bytes.Equal(items[0], data) {
			return
		}
		if again := encodeItems(items); !bytes.Equal(again, data) {
			t.Errorf("%q became %q", data, again)
		}
	})
}

// As text, priorities sort as the numbers do.
func TestPriorityText(t *testing.T) {
	t.Parallel()
	numbers := []int32{-1 << 31, -70000, -1, 0, 1, 9, 10, 255, 70000, 1<<31 - 1}
	var texts []string
	for _, n := range numbers {
		texts = append(texts, priorityText(n))
	}
	if !slices.IsSorted(texts) || texts[2] != "0FFFFFFFF" || texts[4] != "100000001" {
		t.Errorf("%q", texts)
	}
}
