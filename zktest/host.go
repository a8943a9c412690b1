package zktest

// A host is the environment of servers: a test or, for Serve, a program.
type host interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
