package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestImage: every blob is what its digest says, the layer holds the program and runs it as a user of its own, and the
// same input gives the same bytes.
func TestImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "zooid")
	if err := os.WriteFile(program, []byte("#! a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, book := range []string{"man/zooid.1", "html/index.html", "html/decisions/index.html"} {
		file := filepath.Join(dir, filepath.FromSlash(book))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(book), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	var images [2][]byte
	for i := range images {
		file := filepath.Join(dir, "image.tar")
		if err := writeImage(dir, "arm64", "1.2.3", time.Unix(1e9, 0).UTC(), file); err != nil {
			t.Fatal(err)
		}
		images[i], _ = os.ReadFile(file)
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("twice the same isn't the same")
	}
	files, _ := unpack(t, images[0])
	for name, body := range files {
		if sum, ok := strings.CutPrefix(name, "blobs/sha256/"); ok && digest(body) != "sha256:"+sum {
			t.Errorf("%s isn't what it holds", name)
		}
	}
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(files[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var index struct{ Manifests []descriptor }
	read("index.json", &index)
	at := func(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	read(at(index.Manifests[0]), &manifest)
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	read(at(manifest.Config), &config)
	var docker []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	read("manifest.json", &docker)
	if docker[0].Config != at(manifest.Config) || docker[0].Layers[0] != at(manifest.Layers[0]) ||
		docker[0].RepoTags[0] != "zooid:1.2.3" {
		t.Errorf("docker's manifest is %+v", docker)
	}
	z, err := gzip.NewReader(bytes.NewReader(files[at(manifest.Layers[0])]))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(z)
	if err != nil || digest(layer) != config.Rootfs.DiffIDs[0] {
		t.Errorf("the layer isn't what the configuration says: %v", err)
	}
	inside, owners := unpack(t, layer)
	if string(inside["usr/bin/zooid"]) != "#! a program" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/zooid", "entrypoint"}) ||
		config.Architecture != "arm64" {
		t.Errorf("the layer holds %d files; the configuration is %+v", len(inside), config)
	}
	for file, book := range map[string]string{
		"usr/share/man/man1/zooid.1":                    "man/zooid.1",
		"usr/share/doc/zooid/html/decisions/index.html": "html/decisions/index.html",
	} {
		if string(inside[file]) != book {
			t.Errorf("%s is %q", file, inside[file])
		}
	}
	if config.Config.User != "65532:65532" || owners["data/"] != 65532 || owners["bitnami/zookeeper/data/"] != 65532 ||
		owners["datalog/"] != 65532 || owners["usr/bin/zooid"] != 0 {
		t.Errorf("user %s, owners %v", config.Config.User, owners)
	}
}

func unpack(t *testing.T, archive []byte) (files map[string][]byte, owners map[string]int) {
	t.Helper()
	files, owners = map[string][]byte{}, map[string]int{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, owners
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name], owners[h.Name] = body, h.Uid
	}
}

// TestManPages: each command of the list gets a page with all of its help, which roff reads as it stands.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "zooid")
	script := `#!/bin/sh
case $1 in
help) printf 'usage: zooid COMMAND\n\n  serve      [-x] zoo.cfg      run it\n  version                   print it\n\nmore\n' ;;
serve) printf 'usage: zooid serve\n.dot first\n  -x  back\\slash\n' >&2; exit 2 ;;
*) echo 'zooid 1.2.3' ;;
esac
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	man := filepath.Join(dir, "man")
	if err := os.Mkdir(man, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeManPages(program, "2026-01-02", man); err != nil {
		t.Fatal(err)
	}
	for file, parts := range map[string][]string{
		"zooid.1": {
			`.TH ZOOID 1 "2026-01-02"`, ".B serve [\\-x] zoo.cfg\nrun it\n", ".B version \nprint it\n", ".BR zooid-serve (1)",
		},
		"zooid-serve.1":   {"\\&.dot first\n  \\-x  back\\eslash\n"},
		"zooid-version.1": {"zooid 1.2.3\n"},
	} {
		text, err := os.ReadFile(filepath.Join(man, file))
		for _, part := range parts {
			if err != nil || !strings.Contains(string(text), part) {
				t.Errorf("%q is not in %s, %v:\n%s", part, file, err, text)
			}
		}
	}
}

// TestSBOM makes one of this test's own program.
func TestSBOM(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeSBOM(&b, os.Args[0], "1.2.3"); err != nil {
		t.Fatal(err)
	}
	var bom struct {
		SerialNumber string
		Metadata     struct{ Component component }
		Components   []component
	}
	if err := json.Unmarshal(b.Bytes(), &bom); err != nil {
		t.Fatal(err)
	}
	if len(bom.SerialNumber) != len("urn:uuid:00000000-0000-4000-8000-000000000000") ||
		bom.Metadata.Component.Version != "1.2.3" {
		t.Errorf("it says %s of %+v", bom.SerialNumber, bom.Metadata.Component)
	}
	if !slices.ContainsFunc(bom.Components, func(c component) bool { return c.Name == "std" && c.Version != "" }) {
		t.Errorf("it has %d components without std", len(bom.Components))
	}
}
