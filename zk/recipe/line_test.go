package recipe

import "testing"

func TestInTheWay(t *testing.T) {
	t.Parallel()
	const uuid = "_c_3b8c1d1e-2f0a-4f7e-9d57-0a1b2c3d4e5f-"
	const mine = uuid + "lock-0000000007"
	const reader, writer = uuid + "__READ__0000000007", uuid + "__WRIT__0000000007"
	mutex := line{name: "lock-", marks: lockMarks}
	read := line{name: "__READ__", shared: true, marks: rwMarks}
	write := line{name: "__WRIT__", marks: rwMarks}
	for _, tt := range []struct {
		what  string
		line  line
		mine  string
		names []string
		way   string
		err   error
	}{
		{"alone", mutex, mine, []string{mine}, "", nil},
		{"gone", mutex, mine, []string{uuid + "lock-0000000006"}, uuid + "lock-0000000006", errVanished},
		{"the nearest before, not the first, whatever its prefix", mutex, mine,
			[]string{"zzz-lock-0000000003", mine, "aaa-lock-0000000005", uuid + "lock-0000000009", "bbb-lock-0000000004"},
			"aaa-lock-0000000005", nil},
		{"kazoo's too", mutex, mine, []string{mine, "0123456789abcdef__lock__0000000002"},
			"0123456789abcdef__lock__0000000002", nil},
		{"not what is foreign", mutex, mine,
			[]string{mine, "readme", "other-0000000001", "lock-", "lock-00000000x1", "0000000001"}, "", nil},
		{"numbers beyond nine digits", mutex, uuid + "lock-2147483647",
			[]string{uuid + "lock-2147483647", uuid + "lock-0999999999"}, uuid + "lock-0999999999", nil},
		{"a reader passes readers", read, reader, []string{reader, "a__READ__0000000001", "b__rlock__0000000002"}, "", nil},
		{"a reader waits for the nearest writer", read, reader,
			[]string{reader, "a__WRIT__0000000001", "b__lock__0000000003", "c__READ__0000000005"}, "b__lock__0000000003", nil},
		{"a writer waits for anybody", write, writer, []string{writer, "a__WRIT__0000000001", "c__READ__0000000005"},
			"c__READ__0000000005", nil},
		// The server's counter goes on behind its largest number at its smallest.
		{"after the largest number", mutex, uuid + "lock--2147483648",
			[]string{uuid + "lock--2147483648", "a-lock-2147483647", "b-lock-2147483646"}, "a-lock-2147483647", nil},
		{"before the smallest number", mutex, uuid + "lock-2147483647",
			[]string{uuid + "lock-2147483647", "a-lock--2147483648", "b-lock--2147483647"}, "", nil},
		{"a negative number of nine digits", mutex, uuid + "lock--999999998",
			[]string{uuid + "lock--999999998", "a-lock--999999999", "b-lock--1000000000"}, "a-lock--999999999", nil},
		{"kazoo's negative ones", mutex, uuid + "lock--2147483647",
			[]string{uuid + "lock--2147483647", "a__lock__-2147483648"}, "a__lock__-2147483648", nil},
		{"from below zero to above", mutex, uuid + "lock-0000000000", []string{uuid + "lock-0000000000", "a-lock--000000001"},
			"a-lock--000000001", nil},
		// A server whose counter has ended gives its last number to all.
		{"the same number", mutex, uuid + "lock-2147483647", []string{uuid + "lock-2147483647", "a-lock-2147483647"}, "",
			errSameNumber},
		{"the same number of readers", read, uuid + "__READ__2147483647",
			[]string{uuid + "__READ__2147483647", "a__READ__2147483647"}, "", nil},
	} {
		way, err := tt.line.inTheWay(tt.names, tt.mine)
		if way != tt.way || err != tt.err {
			t.Errorf("%s: %q, %v; want %q, %v", tt.what, way, err, tt.way, tt.err)
		}
	}
}
