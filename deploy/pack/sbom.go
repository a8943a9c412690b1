package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// component is a CycloneDX component.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref,omitempty"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// writeSBOM writes an SBOM in CycloneDX 1.5 from the compiler's record in a program: its modules with their versions
// and checksums, and Go's own version.
func writeSBOM(w io.Writer, program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("make an SBOM of %s: %w", program, err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	main := component{
		Type: "application", Ref: info.Main.Path, Name: info.Main.Path, Version: version, Hashes: []hash{
			{"SHA-256", fmt.Sprintf("%x", sum)},
		},
	}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "GO") || s.Key == "CGO_ENABLED" {
			main.Properties = append(main.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	parts := []component{
		{Type: "library", Ref: "std", Name: "std", Version: info.GoVersion,
			PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")},
	}
	refs := []string{"std"}
	for _, d := range info.Deps {
		for d.Replace != nil {
			d = d.Replace
		}
		purl := "pkg:golang/" + d.Path + "@" + d.Version
		parts = append(parts,
			component{
				Type: "library", Ref: purl, Name: d.Path, Version: d.Version, PURL: purl, Properties: []property{{"go:sum", d.Sum}},
			})
		refs = append(refs, purl)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": "urn:uuid:" + uuidOf(sum),
		"metadata":     map[string]any{"component": main},
		"components":   parts,
		"dependencies": []any{map[string]any{"ref": main.Ref, "dependsOn": refs}},
	})
}

// uuidOf makes a UUID of version 4 from a hash.
func uuidOf(sum [32]byte) string {
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}
