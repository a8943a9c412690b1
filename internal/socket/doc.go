// Package socket asks of a TCP connection what package net doesn't tell.
package socket
