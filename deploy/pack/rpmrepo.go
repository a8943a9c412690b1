package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Tags of an .rpm's header that a repository's lists repeat.
const (
	rpmName, rpmVersion, rpmRelease, rpmEpoch, rpmSummary, rpmDescription = 1000, 1001, 1002, 1003, 1004, 1005
	rpmBuildTime, rpmBuildHost, rpmSize, rpmVendor, rpmLicense            = 1006, 1007, 1009, 1011, 1014
	rpmPackager, rpmGroup, rpmURL, rpmArch, rpmSource, rpmArchiveSize     = 1015, 1016, 1020, 1022, 1044, 1046
	rpmProvides, rpmProvidesFlags, rpmProvidesVersion                     = 1047, 1112, 1113
	rpmRequires, rpmRequiresFlags, rpmRequiresVersion                     = 1049, 1048, 1050
	rpmLess, rpmGreater, rpmEqual                                         = 2, 4, 8
	rpmLib                                                                = 1 << 24 // a feature of rpm itself
)

// The lists of a repository for dnf, yum and zypper, as createrepo_c writes them.
type (
	rpmPrimary struct {
		XMLName  xml.Name     `xml:"http://linux.duke.edu/metadata/common metadata"`
		RPM      string       `xml:"xmlns:rpm,attr"`
		Count    int          `xml:"packages,attr"`
		Packages []rpmPackage `xml:"package"`
	}
	rpmPackage struct {
		Type     string     `xml:"type,attr"`
		Name     string     `xml:"name"`
		Arch     string     `xml:"arch"`
		Version  rpmEVR     `xml:"version"`
		Checksum rpmSum     `xml:"checksum"`
		Summary  string     `xml:"summary"`
		About    string     `xml:"description"`
		Packager string     `xml:"packager"`
		URL      string     `xml:"url"`
		Time     rpmTimes   `xml:"time"`
		Size     rpmSizes   `xml:"size"`
		Location rpmHref    `xml:"location"`
		License  string     `xml:"format>rpm:license"`
		Vendor   string     `xml:"format>rpm:vendor"`
		Group    string     `xml:"format>rpm:group"`
		Host     string     `xml:"format>rpm:buildhost"`
		Source   string     `xml:"format>rpm:sourcerpm"`
		Header   rpmRange   `xml:"format>rpm:header-range"`
		Provides rpmEntries `xml:"format>rpm:provides"`
		Requires rpmEntries `xml:"format>rpm:requires"`
		Files    []string   `xml:"format>file"`
		sum      string
		all      []string
	}
	rpmEVR struct {
		Epoch   uint32 `xml:"epoch,attr"`
		Version string `xml:"ver,attr"`
		Release string `xml:"rel,attr"`
	}
	rpmSum struct {
		Type  string `xml:"type,attr"`
		PkgID string `xml:"pkgid,attr,omitempty"`
		Sum   string `xml:",chardata"`
	}
	rpmTimes struct {
		File  int64  `xml:"file,attr"`
		Build uint32 `xml:"build,attr"`
	}
	rpmSizes struct {
		Package   int    `xml:"package,attr"`
		Installed uint32 `xml:"installed,attr"`
		Archive   uint32 `xml:"archive,attr"`
	}
	rpmHref struct {
		Href string `xml:"href,attr"`
	}
	rpmRange struct {
		Start int `xml:"start,attr"`
		End   int `xml:"end,attr"`
	}
	rpmEntries struct {
		Entries []rpmEntry `xml:"rpm:entry"`
	}
	rpmEntry struct {
		Name    string `xml:"name,attr"`
		Flags   string `xml:"flags,attr,omitempty"`
		Epoch   string `xml:"epoch,attr,omitempty"`
		Version string `xml:"ver,attr,omitempty"`
		Release string `xml:"rel,attr,omitempty"`
	}
	// rpmLists is filelists.xml and other.xml, which have the same form without the files.
	rpmLists struct {
		XMLName  xml.Name
		Count    int       `xml:"packages,attr"`
		Packages []rpmList `xml:"package"`
	}
	rpmList struct {
		PkgID   string   `xml:"pkgid,attr"`
		Name    string   `xml:"name,attr"`
		Arch    string   `xml:"arch,attr"`
		Version rpmEVR   `xml:"version"`
		Files   []string `xml:"file"`
	}
	rpmIndex struct {
		XMLName  xml.Name   `xml:"http://linux.duke.edu/metadata/repo repomd"`
		Revision int64      `xml:"revision"`
		Data     []rpmDatum `xml:"data"`
	}
	rpmDatum struct {
		Type     string  `xml:"type,attr"`
		Checksum rpmSum  `xml:"checksum"`
		Open     rpmSum  `xml:"open-checksum"`
		Location rpmHref `xml:"location"`
		Time     int64   `xml:"timestamp"`
		Size     int     `xml:"size"`
		OpenSize int     `xml:"open-size"`
	}
)

// writeRPMRepository writes a repository for dnf, yum and zypper into dir, with these packages: repodata/repomd.xml is
// what the signature is of, and has the sums of the lists, which have those of the packages.
func writeRPMRepository(rpms []string, s *signer, at time.Time, dir string) error {
	if len(rpms) == 0 {
		return errors.New("make a repository for dnf: there are no packages")
	}
	primary := rpmPrimary{RPM: "http://linux.duke.edu/metadata/rpm", Count: len(rpms)}
	lists := func(name, element string) rpmLists {
		return rpmLists{XMLName: xml.Name{Space: "http://linux.duke.edu/metadata/" + name, Local: element}, Count: len(rpms)}
	}
	files, other := lists("filelists", "filelists"), lists("other", "otherdata")
	for _, file := range slices.SortedFunc(slices.Values(rpms), func(a, b string) int {
		return cmp.Compare(filepath.Base(a), filepath.Base(b))
	}) {
		p, err := rpmListed(file, at)
		if err == nil {
			err = placed(file, dir)
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", file, err)
		}
		entry := rpmList{PkgID: p.sum, Name: p.Name, Arch: p.Arch, Version: p.Version}
		other.Packages = append(other.Packages, entry)
		entry.Files = p.all
		files.Packages = append(files.Packages, entry)
		primary.Packages = append(primary.Packages, p)
	}
	index := rpmIndex{Revision: at.Unix()}
	if err := os.MkdirAll(filepath.Join(dir, "repodata"), 0o755); err != nil {
		return err
	}
	for _, list := range []struct {
		name  string
		value any
	}{{"primary", primary}, {"filelists", files}, {"other", other}} {
		open, err := xmlOf(list.value)
		if err != nil {
			return err
		}
		packed, err := compressed(open)
		if err != nil {
			return err
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(packed))
		name := "repodata/" + sum + "-" + list.name + ".xml.gz"
		index.Data = append(index.Data, rpmDatum{
			Type: list.name, Checksum: rpmSum{Type: "sha256", Sum: sum}, Location: rpmHref{name}, Time: at.Unix(),
			Open: rpmSum{Type: "sha256", Sum: fmt.Sprintf("%x", sha256.Sum256(open))}, Size: len(packed), OpenSize: len(open),
		})
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), packed, 0o644); err != nil {
			return err
		}
	}
	text, err := xmlOf(index)
	if err != nil {
		return err
	}
	signature, err := s.detached(text)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "repodata", "repomd.xml"), text, 0o644),
		os.WriteFile(filepath.Join(dir, "repodata", "repomd.xml.asc"), signature, 0o644))
}

func xmlOf(v any) ([]byte, error) {
	b, err := xml.MarshalIndent(v, "", " ")
	return append([]byte(xml.Header), append(b, '\n')...), err
}

// rpmListed returns a repository's description of a package.
func rpmListed(file string, at time.Time) (rpmPackage, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return rpmPackage{}, err
	}
	h, start, end, err := rpmMainHeader(b)
	if err != nil {
		return rpmPackage{}, err
	}
	names, dirs, of := h.texts(rpmBasenames), h.texts(rpmDirnames), h.numbers(rpmDirIndexes)
	if len(of) != len(names) {
		return rpmPackage{}, errors.New("its header tells not the same of all files")
	}
	first := func(tag uint32) string { return strings.Join(h.texts(tag)[:min(1, len(h.texts(tag)))], "") }
	number := func(tag uint32) uint32 {
		if all := h.numbers(tag); len(all) > 0 {
			return all[0]
		}
		return 0
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(b))
	p := rpmPackage{
		Type: "rpm", Name: first(rpmName), Arch: first(rpmArch), Checksum: rpmSum{"sha256", "YES", sum}, sum: sum,
		Version: rpmEVR{number(rpmEpoch), first(rpmVersion), first(rpmRelease)},
		Summary: first(rpmSummary), About: first(rpmDescription), Packager: first(rpmPackager), URL: first(rpmURL),
		Time: rpmTimes{at.Unix(), number(rpmBuildTime)}, Size: rpmSizes{len(b), number(rpmSize), number(rpmArchiveSize)},
		Location: rpmHref{filepath.Base(file)}, License: first(rpmLicense), Vendor: first(rpmVendor), Group: first(rpmGroup),
		Host: first(rpmBuildHost), Source: first(rpmSource), Header: rpmRange{start, end},
		Provides: rpmEntriesOf(h, rpmProvides, rpmProvidesFlags, rpmProvidesVersion),
		Requires: rpmEntriesOf(h, rpmRequires, rpmRequiresFlags, rpmRequiresVersion),
	}
	if p.Name == "" || p.Version.Version == "" || p.Arch == "" {
		return p, errors.New("its header has no name, version or architecture")
	}
	for i, name := range names {
		if int64(of[i]) >= int64(len(dirs)) {
			return p, fmt.Errorf("%s is in no directory", name)
		}
		path := dirs[of[i]] + name
		p.all = append(p.all, path)
		// The primary list has those that other packages ask for.
		if strings.HasPrefix(path, "/etc/") || strings.Contains(path, "bin/") {
			p.Files = append(p.Files, path)
		}
	}
	return p, nil
}

// rpmEntriesOf returns a package's entries of provided or required things, without requirements on rpm itself.
func rpmEntriesOf(h rpmHeader, names, flags, versions uint32) (all rpmEntries) {
	is, of := h.numbers(flags), h.texts(versions)
	for i, name := range h.texts(names) {
		e := rpmEntry{Name: name}
		if i < len(is) && i < len(of) {
			if is[i]&rpmLib != 0 {
				continue
			}
			e.Flags = map[uint32]string{
				rpmLess: "LT", rpmGreater: "GT", rpmEqual: "EQ", rpmLess | rpmEqual: "LE", rpmGreater | rpmEqual: "GE",
			}[is[i]&(rpmLess|rpmGreater|rpmEqual)]
			if e.Flags != "" {
				epoch, rest, ok := strings.Cut(of[i], ":")
				if !ok {
					epoch, rest = "0", of[i]
				}
				e.Epoch = epoch
				e.Version, e.Release, _ = strings.Cut(rest, "-")
			}
		}
		all.Entries = append(all.Entries, e)
	}
	return all
}
