// Package versions opens the data of earlier versions. For each release testdata
// holds golden data sets, and the tests hold this version to their content.
//
// A data set is the data directories of one server or of three (NAME.tar.gz), and a
// listing of what the release's own program told of them (NAME.txt). A release adds
// its own sets, made with its own program, and keeps those of the releases before:
//
//	go test ./test/versions -run TestMake -make /usr/local/bin/zooid -commit 40c5f47
package versions
