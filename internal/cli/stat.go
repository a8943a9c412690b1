package cli

import (
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/export"
	"github.com/zooid-project/zooid/zk"
)

// hex returns a 64-bit number as ZooKeeper prints zxids and session ids.
func hex(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }

// javaDate is the form in which Java prints a date.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// printStat prints zkCli's stat block.
func (o *output) printStat(st zk.Stat) {
	o.printf("cZxid = %s\nctime = %s\nmZxid = %s\nmtime = %s\npZxid = %s\n",
		hex(st.Czxid), time.UnixMilli(st.Ctime).Format(javaDate),
		hex(st.Mzxid), time.UnixMilli(st.Mtime).Format(javaDate), hex(st.Pzxid))
	o.printf("cversion = %d\ndataVersion = %d\naclVersion = %d\nephemeralOwner = %s\ndataLength = %d\nnumChildren = %d\n",
		st.Cversion, st.Version, st.Aversion, hex(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

// statJSON is a Stat in JSON. Zxids and the owner are text, as they don't fit a
// JavaScript number.
type statJSON struct {
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

// jsonTime is RFC 3339 with milliseconds, in UTC.
const jsonTime = "2006-01-02T15:04:05.000Z"

func timeJSON(ms int64) string { return time.UnixMilli(ms).UTC().Format(jsonTime) }

func toJSON(st zk.Stat) *statJSON {
	return &statJSON{
		Czxid: hex(st.Czxid), Ctime: timeJSON(st.Ctime), Mzxid: hex(st.Mzxid), Mtime: timeJSON(st.Mtime), Pzxid: hex(st.Pzxid),
		Cversion: st.Cversion, Version: st.Version, Aversion: st.Aversion, EphemeralOwner: hex(st.EphemeralOwner),
		DataLength: st.DataLength, NumChildren: st.NumChildren,
	}
}

// content is a znode's data in JSON: text if it reads well, else base64.
// Both are absent for a znode created without data.
type content struct {
	Text   *string `json:"data,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
}

func toContent(data []byte) content {
	if data == nil {
		return content{}
	}
	if !export.Readable(data) {
		return content{Base64: data}
	}
	text := string(data)
	return content{Text: &text}
}

// kind is what sort of znode a Stat describes. Containers and TTL znodes look like
// persistent ones: servers don't tell.
type kind string

const (
	persistent kind = "persistent"
	ephemeral  kind = "ephemeral"
)

func kindOf(st zk.Stat) kind {
	if st.EphemeralOwner == 0 {
		return persistent
	}
	return ephemeral
}
