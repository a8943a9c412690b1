package zktest

// A host is where servers run: in a test or, for Serve, in a program.
type host interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
