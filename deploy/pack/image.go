package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// imageUser is the user id of the server in a container; no other process uses it.
const imageUser = "65532"

// A descriptor identifies a blob, as in OCI's image specification.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// entry is a file in a tar archive.
type entry struct {
	name string
	mode int64
	uid  int
	dir  bool
	body []byte
}

// writeImage writes an image with only a static program, zooid in the folder dir, and its books, which are in the
// folders man and html there, as an archive that docker, podman and skopeo can load: an OCI image layout, with docker's
// manifest in addition.
func writeImage(dir, arch, version string, at time.Time, file string) error {
	binary, err := os.ReadFile(filepath.Join(dir, "zooid"))
	if err != nil {
		return fmt.Errorf("make an image: %w", err)
	}
	entries := []entry{
		// Volumes that were mounted into images of Apache's or Bitnami's take their owner from here.
		{name: "bitnami/", mode: 0o755, dir: true},
		{name: "bitnami/zookeeper/", mode: 0o700, uid: 65532, dir: true},
		{name: "bitnami/zookeeper/data/", mode: 0o700, uid: 65532, dir: true},
		{name: "data/", mode: 0o700, uid: 65532, dir: true},
		{name: "datalog/", mode: 0o700, uid: 65532, dir: true},
		{name: "etc/", mode: 0o755, dir: true},
		{name: "etc/group", mode: 0o644, body: []byte("root:x:0:\nzooid:x:" + imageUser + ":\n")},
		{name: "etc/passwd", mode: 0o644,
			body: []byte("root:x:0:0:root:/:/none\nzooid:x:" + imageUser + ":" + imageUser + ":zooid:/data:/none\n")},
		{name: "etc/zooid/", mode: 0o755, dir: true},
		{name: "tmp/", mode: 0o1777, dir: true},
		{name: "usr/", mode: 0o755, dir: true},
		{name: "usr/bin/", mode: 0o755, dir: true},
		{name: "usr/bin/zooid", mode: 0o755, body: binary},
		{name: "usr/share/", mode: 0o755, dir: true},
		{name: "usr/share/doc/", mode: 0o755, dir: true},
		{name: "usr/share/doc/zooid/", mode: 0o755, dir: true},
		{name: "usr/share/man/", mode: 0o755, dir: true},
	}
	for _, books := range []struct{ from, to string }{
		{"html", "usr/share/doc/zooid/html"}, {"man", "usr/share/man/man1"},
	} {
		more, err := filesBelow(filepath.Join(dir, books.from), books.to)
		if err != nil {
			return fmt.Errorf("make an image: %w", err)
		}
		entries = append(entries, more...)
	}
	layer, err := archiveOf(at, entries)
	if err != nil {
		return err
	}
	packed, err := compressed(layer)
	if err != nil {
		return err
	}
	created := at.Format(time.RFC3339)
	config := encoded(map[string]any{
		"created": created, "architecture": arch, "os": "linux",
		"config": map[string]any{
			"User": imageUser + ":" + imageUser, "WorkingDir": "/data", "Entrypoint": []string{"/usr/bin/zooid", "entrypoint"},
			"Cmd":          []string{},
			"Env":          []string{"PATH=/usr/bin"},
			"ExposedPorts": map[string]any{"2181/tcp": struct{}{}, "2281/tcp": struct{}{}, "2888/tcp": struct{}{}},
			"Volumes":      map[string]any{"/data": struct{}{}}, "StopSignal": "SIGTERM",
			"Labels": map[string]string{
				"org.opencontainers.image.title": "zooid", "org.opencontainers.image.version": version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
		"history": []any{map[string]string{"created": created, "created_by": "zooid " + version}},
	})
	const prefix = "application/vnd.oci.image."
	configAt := descriptor{MediaType: prefix + "config.v1+json", Digest: digest(config), Size: int64(len(config))}
	layerAt := descriptor{MediaType: prefix + "layer.v1.tar+gzip", Digest: digest(packed), Size: int64(len(packed))}
	manifest := encoded(map[string]any{
		"schemaVersion": 2, "mediaType": prefix + "manifest.v1+json", "config": configAt, "layers": []descriptor{layerAt},
	})
	index := encoded(map[string]any{"schemaVersion": 2, "mediaType": prefix + "index.v1+json", "manifests": []descriptor{{
		MediaType: prefix + "manifest.v1+json", Digest: digest(manifest), Size: int64(len(manifest)), Platform: &platform{
			arch, "linux",
		},
		Annotations: map[string]string{"org.opencontainers.image.ref.name": version},
	}}})
	docker := encoded([]map[string]any{
		{"Config": blob(config), "RepoTags": []string{"zooid:" + version}, "Layers": []string{blob(packed)}},
	})
	image, err := archiveOf(at, []entry{
		{name: "oci-layout", mode: 0o644, body: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, body: index},
		{name: "manifest.json", mode: 0o644, body: docker},
		{name: blob(config), mode: 0o644, body: config},
		{name: blob(manifest), mode: 0o644, body: manifest},
		{name: blob(packed), mode: 0o644, body: packed},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, image, 0o644)
}

// filesBelow returns the folder dir and its content as the folder to, sorted by name.
func filesBelow(dir, to string) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		within, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := path.Join(to, filepath.ToSlash(within))
		if d.IsDir() {
			entries = append(entries, entry{name: name + "/", mode: 0o755, dir: true})
			return nil
		}
		body, err := os.ReadFile(file)
		entries = append(entries, entry{name: name, mode: 0o644, body: body})
		return err
	})
	return entries, err
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blob(b []byte) string { return "blobs/sha256/" + digest(b)[len("sha256:"):] }

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // can't fail: only maps, strings and numbers
	}
	return b
}

func archiveOf(at time.Time, entries []entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.uid, Size: int64(len(e.body)), ModTime: at, Typeflag: tar.TypeReg,
			Format: tar.FormatPAX,
		}
		if e.dir {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func compressed(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, bytes.NewReader(b))
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}
