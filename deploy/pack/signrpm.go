package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Tags of the header with an .rpm's signatures, and the types of their values.
const (
	rpmSignatures, rpmHeaderSignature, rpmWholeSignature = 62, 268, 1002
	rpmInt32, rpmString, rpmBytes                        = 4, 6, 7
	rpmIndexBytes                                        = 16
)

// An rpmTag is an entry of a header with its value.
type rpmTag struct {
	tag, kind, count uint32
	value            []byte
}

// signRPM signs a package: its header, which has the payload's sum, and both together, as old versions of rpm want it.
// Signatures that it has are replaced.
func signRPM(file string, s *signer) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	signed, err := signedRPM(b, s)
	if err != nil {
		return fmt.Errorf("sign %s: %w", file, err)
	}
	return os.WriteFile(file, signed, 0o644)
}

func signedRPM(b []byte, s *signer) ([]byte, error) {
	_, start, end, err := rpmMainHeader(b)
	if err != nil {
		return nil, err
	}
	h, _, err := readRPMHeader(b[rpmLeadBytes:])
	if err != nil {
		return nil, err
	}
	tags, err := rpmSignatureTags(h)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		tag  uint32
		text []byte
	}{{rpmHeaderSignature, b[start:end]}, {rpmWholeSignature, b[start:]}} {
		signature, err := s.bare(part.text)
		if err != nil {
			return nil, err
		}
		tags = append(tags, rpmTag{part.tag, rpmBytes, uint32(len(signature)), signature})
	}
	return slices.Concat(b[:rpmLeadBytes], rpmSignatureHeader(tags), b[start:]), nil
}

// rpmSignatureTags returns the entries of the header with signatures: the sizes and sums, not the signatures and not
// the region, the entry that spans the others.
func rpmSignatureTags(h rpmHeader) (tags []rpmTag, err error) {
	for i := h.index; len(i) >= rpmIndexBytes; i = i[rpmIndexBytes:] {
		word := binary.BigEndian.Uint32
		t := rpmTag{tag: word(i), kind: word(i[4:]), count: word(i[12:])}
		from, _ := h.value(t.tag)
		n := int64(t.count)
		switch t.kind {
		case rpmInt32:
			n *= 4
		case rpmString:
			n = int64(bytes.IndexByte(from, 0)) + 1
		case rpmBytes:
		default:
			return nil, fmt.Errorf("the signature header has tag %d of type %d", t.tag, t.kind)
		}
		if n < 1 || n > int64(len(from)) {
			return nil, errors.New("the signature header is cut short")
		}
		if t.tag != rpmSignatures && t.tag != rpmHeaderSignature && t.tag != rpmWholeSignature {
			t.value = from[:n]
			tags = append(tags, t)
		}
	}
	return tags, nil
}

// rpmSignatureHeader returns a header with these entries, sorted, and the region that spans them:
//
//	magic (8) | entries, store bytes (4 each) | region | entries… | values, aligned … | the region's end
//
// padded to a multiple of eight.
func rpmSignatureHeader(tags []rpmTag) []byte {
	slices.SortFunc(tags, func(a, b rpmTag) int { return cmp.Compare(a.tag, b.tag) })
	word := binary.BigEndian.AppendUint32
	entry := func(b []byte, tag, kind, offset, count uint32) []byte {
		return word(word(word(word(b, tag), kind), offset), count)
	}
	var index, store []byte
	for _, t := range tags {
		for t.kind == rpmInt32 && len(store)%4 != 0 {
			store = append(store, 0)
		}
		index = entry(index, t.tag, t.kind, uint32(len(store)), t.count)
		store = append(store, t.value...)
	}
	region := entry(nil, rpmSignatures, rpmBytes, uint32(len(store)), rpmIndexBytes)
	back := uint32(len(region) + len(index))
	store = entry(store, rpmSignatures, rpmBytes, -back, rpmIndexBytes)
	b := []byte{0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0}
	b = word(word(b, uint32(len(tags)+1)), uint32(len(store)))
	b = slices.Concat(b, region, index, store)
	return append(b, make([]byte, (8-len(b)%8)%8)...)
}
