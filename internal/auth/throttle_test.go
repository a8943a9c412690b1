package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

func from(address string) jute.ID { return jute.ID{Scheme: "ip", ID: address} }

// TestThrottle: an address may fail as often as the burst allows, then once a second;
// others aren't concerned.
func TestThrottle(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	now := int64(5 * time.Hour)
	guess := func(address string) bool {
		allowed := throttle.Allows(from(address), now)
		if allowed {
			throttle.Failed(from(address), now)
		}
		return allowed
	}
	for n := range FailedLoginsBurst {
		if !guess("10.0.0.1") {
			t.Fatalf("failure %d isn't allowed", n+1)
		}
	}
	if guess("10.0.0.1") {
		t.Error("one more than the burst is allowed")
	}
	if !guess("10.0.0.2") {
		t.Error("another address is locked out")
	}
	now += int64(failedLoginEvery)
	if !guess("10.0.0.1") || guess("10.0.0.1") {
		t.Error("after a second it isn't exactly one more that is allowed")
	}
	now += (FailedLoginsBurst + 1) * int64(failedLoginEvery)
	for n := range FailedLoginsBurst {
		if !guess("10.0.0.1") {
			t.Fatalf("after a rest, failure %d isn't allowed", n+1)
		}
	}
}

// TestThrottleByNetwork: the addresses of one IPv6 network count as one.
func TestThrottleByNetwork(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	for n := range FailedLoginsBurst {
		throttle.Failed(from(fmt.Sprintf("2001:db8:0:1:0:0:0:%x", n)), 1)
	}
	if throttle.Allows(from("2001:db8:0:1:ffff:0:0:1"), 1) {
		t.Error("another address of the network may go on")
	}
	if !throttle.Allows(from("2001:db8:0:2:0:0:0:1"), 1) {
		t.Error("another network is locked out")
	}
}

// TestThrottledAddressesMax: the memory is bounded, and the newest are remembered.
func TestThrottledAddressesMax(t *testing.T) {
	t.Parallel()
	var throttle Throttle
	name := func(n int) jute.ID { return from(fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)) }
	for n := range throttledAddressesMax + 100 {
		for range FailedLoginsBurst {
			throttle.Failed(name(n), 1)
		}
	}
	if len(throttle.failed) != throttledAddressesMax || len(throttle.order) != throttledAddressesMax {
		t.Errorf("%d addresses are remembered, in a ring of %d", len(throttle.failed), len(throttle.order))
	}
	if throttle.Allows(name(throttledAddressesMax+99), 1) || throttle.Allows(name(100), 1) ||
		!throttle.Allows(name(99), 1) {
		t.Error("it isn't the oldest that are forgotten")
	}
}
