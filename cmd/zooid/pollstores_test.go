//go:build unix

package main

import (
	"crypto/tls"
	"testing"
	"time"
)

// TestPollStores: ports are looked at though nobody connects.
func TestPollStores(t *testing.T) {
	t.Parallel()
	done, looked := make(chan struct{}), make(chan struct{}, 1)
	port := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		select {
		case looked <- struct{}{}:
		default:
		}
		return nil, nil
	}}
	ended := make(chan struct{})
	go func() {
		pollStores(done, time.Millisecond, nil, &tls.Config{}, port)
		close(ended)
	}()
	<-looked
	<-looked
	close(done)
	<-ended
}
