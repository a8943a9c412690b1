// Package moving implements the commands that move servers and ensembles from Apache ZooKeeper to Zooid and back:
// zooid import, export, migrate and shadow. They parse the command line and report what happens; package apache and
// the packages below it do the work.
package moving
