package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// aptPool is where the packages are in a repository.
const aptPool = "pool/main/z/zooid"

// writeAPT writes a repository for apt into dir, with these packages:
//
//	dists/stable/InRelease, Release, Release.gpg      what the signature is of: the sums of the lists
//	dists/stable/main/binary-ARCH/Packages, .gz       the lists: each package with its own sum
//	pool/main/z/zooid                                 the packages
func writeAPT(debs []string, s *signer, at time.Time, dir string) error {
	lists := map[string]string{} // by architecture
	for _, deb := range slices.SortedFunc(slices.Values(debs), func(a, b string) int {
		return cmp.Compare(filepath.Base(a), filepath.Base(b))
	}) {
		arch, entry, err := aptEntry(deb)
		if err != nil {
			return fmt.Errorf("list %s: %w", deb, err)
		}
		lists[arch] += entry
		if err := placed(deb, filepath.Join(dir, filepath.FromSlash(aptPool))); err != nil {
			return err
		}
	}
	if len(lists) == 0 {
		return errors.New("make a repository for apt: there are no packages")
	}
	architectures := slices.Sorted(maps.Keys(lists))
	release := fmt.Sprintf("Origin: Zooid\nLabel: Zooid\nSuite: stable\nCodename: stable\nDate: %s\nArchitectures: %s\n"+
		"Components: main\nDescription: Zooid, a coordination service\nSHA256:\n",
		at.Format(time.RFC1123), strings.Join(architectures, " "))
	top := filepath.Join(dir, "dists", "stable")
	for _, arch := range architectures {
		packed, err := compressed([]byte(lists[arch]))
		if err != nil {
			return err
		}
		for _, list := range []struct {
			name string
			body []byte
		}{{"Packages", []byte(lists[arch])}, {"Packages.gz", packed}} {
			name := path.Join("main", "binary-"+arch, list.name)
			file := filepath.Join(top, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, list.body, 0o644)); err != nil {
				return err
			}
			release += fmt.Sprintf(" %x %d %s\n", sha256.Sum256(list.body), len(list.body), name)
		}
	}
	around, err := s.clear([]byte(release))
	beside, err2 := s.detached([]byte(release))
	return errors.Join(err, err2, os.WriteFile(filepath.Join(top, "Release"), []byte(release), 0o644),
		os.WriteFile(filepath.Join(top, "Release.gpg"), beside, 0o644),
		os.WriteFile(filepath.Join(top, "InRelease"), around, 0o644))
}

// aptEntry returns a package's architecture and its entry in the list: its own description, and its place.
func aptEntry(deb string) (arch, entry string, err error) {
	b, err := os.ReadFile(deb)
	if err != nil {
		return "", "", err
	}
	control, _, err := debMembers(b)
	if err != nil {
		return "", "", err
	}
	i := slices.IndexFunc(control, func(f packaged) bool { return f.path == "/control" })
	if i < 0 {
		return "", "", errors.New("it has no control file")
	}
	fields := strings.TrimRight(string(control[i].body), "\n")
	for line := range strings.Lines(fields) {
		if value, ok := strings.CutPrefix(line, "Architecture:"); ok {
			arch = strings.TrimSpace(value)
		}
	}
	if arch == "" || strings.ContainsAny(arch, "/ ") {
		return "", "", fmt.Errorf("its architecture is %q", arch)
	}
	return arch, fmt.Sprintf("%s\nFilename: %s\nSize: %d\nSHA256: %x\n\n", fields,
		path.Join(aptPool, filepath.Base(deb)), len(b), sha256.Sum256(b)), nil
}

// placed puts a file into a folder as well, without a copy where the file system can do that.
func placed(file, dir string) error {
	to := filepath.Join(dir, filepath.Base(file))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if os.Link(file, to) == nil {
		return nil
	}
	b, err := os.ReadFile(file)
	return errors.Join(err, os.WriteFile(to, b, 0o644))
}
