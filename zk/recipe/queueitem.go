package recipe

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The format of a queue item's data, which is that of Curator's queues:
//
//	00 01 00 01                     version
//	01 <length, 4 bytes> <bytes>    an item, any number of times
//	02                              the end
//
// All numbers are big endian.
const (
	itemVersion = 0x00010001
	itemNext    = 1
	itemEnd     = 2
)

func encodeItems(items [][]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, itemVersion)
	for _, item := range items {
		b = append(b, itemNext)
		b = binary.BigEndian.AppendUint32(b, uint32(len(item)))
		b = append(b, item...)
	}
	return append(b, itemEnd)
}

// decodeItems returns the items in data. Data in another format are one item, so that a znode made by hand doesn't
// block the queue.
func decodeItems(data []byte) [][]byte {
	if len(data) < 5 || binary.BigEndian.Uint32(data) != itemVersion {
		return [][]byte{data}
	}
	var items [][]byte
	for b := data[4:]; len(b) > 0; {
		switch {
		case b[0] == itemEnd && len(b) == 1:
			return items
		case b[0] != itemNext || len(b) < 5 || uint64(binary.BigEndian.Uint32(b[1:])) > uint64(len(b)-5):
			return [][]byte{data}
		}
		size := binary.BigEndian.Uint32(b[1:])
		items = append(items, b[5:5+size:5+size]) // an append to it doesn't change the next one
		b = b[5+size:]
	}
	return [][]byte{data}
}

// priorityText formats a priority as Curator's priority queue does in names: lower numbers sort first as text.
func priorityText(priority int32) string {
	sign := '1'
	if priority < 0 {
		sign = '0'
	}
	return fmt.Sprintf("%c%08X", sign, uint32(int64(priority)&math.MaxUint32))
}
