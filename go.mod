module github.com/zooid-project/zooid

go 1.26

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/klauspost/compress v1.20.3
	go.etcd.io/raft/v3 v3.7.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sys v0.38.0
	google.golang.org/protobuf v1.36.11
)
