package zk_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk/gozk"
)

// A program for go-zookeeper/zk, with the import path changed and nothing else.
func Example() {
	dir, err := os.MkdirTemp("", "gozk-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.Open(server.Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	conn, events, err := zk.Connect([]string{s.Addrs()[0].String()}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	_, err = conn.Create("/greeting", []byte("hello"), 0, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	_, stat, changes, err := conn.GetW("/greeting")
	fmt.Println(stat.Version, err)
	_, err = conn.Set("/greeting", []byte("hello again"), stat.Version)
	fmt.Println(err)
	fmt.Println((<-changes).Type)
	_, err = conn.Set("/greeting", nil, stat.Version)
	fmt.Println(err == zk.ErrBadVersion)
	// Output:
	// <nil>
	// 0 <nil>
	// <nil>
	// EventNodeDataChanged
	// true
}
