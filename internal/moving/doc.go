// Package moving has the commands that move servers and ensembles from Apache ZooKeeper to
// Zooid and back: zooid import, export, migrate and shadow. They read the command line and tell
// what happens; package migrate and those below it do the work.
package moving
