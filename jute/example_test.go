package jute_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/zooid-project/zooid/jute"
)

// This example reads a client's request as a server does.
func Example() {
	sent := jute.PathWatchRequest{Path: "/config", Watch: true}
	stream := bytes.NewReader(jute.AppendRequest(nil, 1, jute.OpGetData, sent.Append))

	frame, err := jute.ReadFrame(stream, nil, jute.MaxBufferDefault)
	if err != nil {
		log.Fatal(err)
	}
	d := jute.NewDecoder(frame)
	var h jute.RequestHeader
	h.Decode(d)
	var r jute.PathWatchRequest
	r.Decode(d)
	if err := d.Err(); err != nil { // after the last field, before the first use
		log.Fatal(err)
	}
	fmt.Println(h.Xid, h.Op, r.Path, r.Watch)
	// Output: 1 getData /config true
}

// This example reads a server's refusal as a client does.
func ExampleReplyHeader() {
	reply := jute.AppendReply(nil, jute.ReplyHeader{Xid: 1, Zxid: 7, Err: jute.ErrNoNode}, nil)
	frame, err := jute.ReadFrame(bytes.NewReader(reply), nil, jute.MaxBufferDefault)
	if err != nil {
		log.Fatal(err)
	}
	d := jute.NewDecoder(frame)
	var h jute.ReplyHeader
	h.Decode(d)
	if err := d.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Xid, h.Zxid, h.Err)
	// Output: 1 7 zookeeper: NoNode
}
