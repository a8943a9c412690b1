// Package day types what people type: a newcomer's first ten minutes, and an operator's day on three servers. Each step
// states what a person expects: the exit code, what the output says, how long it may be, and in an error what to do
// next. What differs is a surprise; the tests print the steps in a table with the count of surprises, which must be 0.
//
// TestExchangedImage acts as a user of compose files for another image: it names this one in them.
//
// The steps run by sh, with the program as a user has it, in namespaces of their own, so that they have the usual ports
// and may fill a disk:
//
//	go test ./test/day -v
package day
