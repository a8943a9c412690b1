// Package moving tests the moving of data between Apache ZooKeeper and Zooid against Apache itself: real Apache
// servers of several versions create random histories, their files are copied at random moments, as kill -9 would
// leave them, and what Apache itself loads from them is compared with what Zooid reads and writes.
package moving
