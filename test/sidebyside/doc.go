// Package sidebyside measures the Go client, by itself and next to go-zookeeper/zk. It is
// no part of package zk's tests, so that programs that use zk need nothing of
// go-zookeeper's.
package sidebyside
