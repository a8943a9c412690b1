package zk_test

import (
	"fmt"
	"log"
	"time"

	"github.com/zooid-project/zooid/zk/gozk/zk"
	"github.com/zooid-project/zooid/zktest"
)

// This program was written for go-zookeeper/zk. Only its import path has changed.
func Example() {
	servers, err := zktest.Serve(zktest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()

	conn, events, err := zk.Connect([]string{servers.Connect()}, 10*time.Second, zk.WithLogInfo(false))
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
