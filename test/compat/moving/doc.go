// Package moving holds the moving of data between Apache ZooKeeper and Zooid to what
// Apache itself does: random histories are made on real Apache servers of several versions, their
// files are taken at random instants, as kill -9 would leave them, and Apache's own start on them is
// compared with what Zooid reads and writes.
package moving
