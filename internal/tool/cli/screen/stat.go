package screen

import (
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/tool/export"
	"github.com/zooid-project/zooid/zk"
)

// Hex returns a 64-bit number as ZooKeeper prints zxids and session ids.
func Hex(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }

// javaDate is the form in which Java prints a date.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// PrintStat prints zkCli's stat block.
func (o *Output) PrintStat(st zk.Stat) {
	o.Printf("cZxid = %s\nctime = %s\nmZxid = %s\nmtime = %s\npZxid = %s\n",
		Hex(st.Czxid), time.UnixMilli(st.Ctime).Format(javaDate),
		Hex(st.Mzxid), time.UnixMilli(st.Mtime).Format(javaDate), Hex(st.Pzxid))
	o.Printf("cversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = %s\ndataLength = %d\nnumChildren = %d\n",
		st.Cversion, st.Version, st.Aversion, Hex(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

// StatJSON is a Stat in JSON. Zxids and the owner are text, as they don't fit a
// JavaScript number.
type StatJSON struct {
	Czxid          string `json:"czxid"`
	Ctime          string `json:"ctime"`
	Mzxid          string `json:"mzxid"`
	Mtime          string `json:"mtime"`
	Pzxid          string `json:"pzxid"`
	Cversion       int32  `json:"cversion"`
	Version        int32  `json:"version"`
	Aversion       int32  `json:"aversion"`
	EphemeralOwner string `json:"ephemeralOwner"`
	DataLength     int32  `json:"dataLength"`
	NumChildren    int32  `json:"numChildren"`
}

// JSONTime is RFC 3339 with milliseconds, in UTC.
const JSONTime = "2006-01-02T15:04:05.000Z"

func timeJSON(ms int64) string { return time.UnixMilli(ms).UTC().Format(JSONTime) }

// ToJSON returns a Stat as JSON shows it.
func ToJSON(st zk.Stat) *StatJSON {
	return &StatJSON{
		Czxid: Hex(st.Czxid), Ctime: timeJSON(st.Ctime), Mzxid: Hex(st.Mzxid), Mtime: timeJSON(st.Mtime),
		Pzxid:    Hex(st.Pzxid),
		Cversion: st.Cversion, Version: st.Version, Aversion: st.Aversion, EphemeralOwner: Hex(st.EphemeralOwner),
		DataLength: st.DataLength, NumChildren: st.NumChildren,
	}
}

// Content is a znode's data in JSON: text if it is readable, else base64. Both are
// absent for a znode created without data.
type Content struct {
	Text   *string `json:"data,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

// ToContent returns data as JSON shows it.
func ToContent(data []byte) Content {
	if data == nil {
		return Content{}
	}
	if !export.Readable(data) {
		return Content{Base64: data}
	}
	text := string(data)
	return Content{Text: &text}
}

// Kind is the kind of znode that a Stat describes. Containers and TTL znodes look like
// persistent ones: servers don't tell them apart.
type Kind string

const (
	Persistent Kind = "persistent"
	Ephemeral  Kind = "ephemeral"
)

// KindOf returns the kind of znode that a Stat describes.
func KindOf(st zk.Stat) Kind {
	if st.EphemeralOwner == 0 {
		return Persistent
	}
	return Ephemeral
}

// PaintZnode returns a znode's name in the colour of its kind.
func (o *Output) PaintZnode(name string, st zk.Stat) string {
	name = o.Name(name)
	switch {
	case KindOf(st) == Ephemeral:
		return o.Paint(Magenta, name)
	case st.NumChildren > 0:
		return o.Paint(Blue, name)
	}
	return name
}
