package screen

import (
	"fmt"
	"strings"
)

// HexDump prints data as zkCli does: sixteen bytes to a line between rules.
func (o *Output) HexDump(data []byte) {
	const rule = "+-------------------------------------------------+"
	o.Printf("         %s\n         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n", rule)
	o.Printf("+--------%s----------------+\n", rule)
	for at := 0; at < len(data); at += 16 {
		line := data[at:min(at+16, len(data))]
		var codes, text strings.Builder
		for _, b := range line {
			fmt.Fprintf(&codes, " %02x", b)
			if b <= 0x1f || b >= 0x7f {
				b = '.'
			}
			text.WriteByte(b)
		}
		o.Printf("|%08x|%-48s |%-16s|\n", at, codes.String(), text.String())
	}
	o.Printf("+--------%s----------------+\n", rule)
}
