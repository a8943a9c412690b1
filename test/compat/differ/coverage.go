package differ

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// coverage counts steps by word and by their outcome on the reference.
type coverage map[string]map[string]int

func (c coverage) count(steps []step, all []seen) {
	for i := range all {
		if steps[i].code() == jute.OpCreateSession {
			continue // Apache's answer has no code
		}
		c.add(steps[i].word, all[i].err)
		if steps[i].word == "multi" && all[i].err == "0" {
			c.add("(multi)", multiOutcome(all[i].fields))
		}
		for _, e := range all[i].events {
			c.add("(events)", strings.SplitN(e.fields[0].text, " ", 2)[0])
		}
	}
}

// multiOutcome returns the code with which a multi failed, or "0" if it succeeded.
func multiOutcome(fields []field) string {
	for _, f := range fields {
		if f.name == "number" && f.text != "0" {
			return f.text
		}
	}
	return "0"
}

func (c coverage) add(word, outcome string) {
	if c[word] == nil {
		c[word] = map[string]int{}
	}
	c[word][outcome]++
}

// table formats the counts, a line per word.
func (c coverage) table() string {
	var b strings.Builder
	for _, word := range slices.Sorted(maps.Keys(c)) {
		total := 0
		var parts []string
		for _, outcome := range slices.Sorted(maps.Keys(c[word])) {
			n := c[word][outcome]
			total += n
			name := outcome
			if code, err := strconv.Atoi(outcome); err == nil && word != "(events)" {
				name = jute.Code(code).String()
			}
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
		fmt.Fprintf(&b, "%-21s %7d  %s\n", word, total, strings.Join(parts, ", "))
	}
	return b.String()
}

// typical returns, for each word, the outcomes besides success that a long enough run must have seen.
func typical() map[string][]string {
	const none, noNode, noAuth, badVersion, exists = "0", "-101", "-102", "-103", "-110"
	const badArguments, invalidACL, marshalling, unimplemented = "-8", "-114", "-5", "-6"
	return map[string][]string{
		"create":               {none, noNode, noAuth, exists, badArguments, invalidACL, "-108", "-125"},
		"create2":              {none, noNode, noAuth, exists, badArguments, invalidACL, "-108"},
		"createContainer":      {none, noNode, noAuth, exists, badArguments, invalidACL},
		"createTTL":            {none, noNode, noAuth, exists, badArguments, invalidACL, unimplemented},
		"delete":               {none, noNode, noAuth, badVersion, badArguments, "-111"},
		"exists":               {none, noNode, noAuth},
		"getData":              {none, noNode, noAuth},
		"setData":              {none, noNode, noAuth, badVersion, badArguments, "-125"},
		"getACL":               {none, noNode, noAuth},
		"setACL":               {none, noNode, noAuth, badVersion, badArguments, invalidACL},
		"getChildren":          {none, noNode, noAuth},
		"getChildren2":         {none, noNode, noAuth},
		"sync":                 {none},
		"ping":                 {none},
		"check":                {unimplemented},
		"multi":                {none, marshalling},
		"multiRead":            {none, marshalling},
		"reconfig":             {unimplemented, "-123"},
		"checkWatches":         {none, "-121", marshalling},
		"removeWatches":        {none, "-121", marshalling},
		"setWatches":           {none},
		"setWatches2":          {none},
		"addWatch":             {none, marshalling},
		"auth":                 {none, "-115"},
		"sasl":                 {none},
		"getEphemerals":        {none},
		"getAllChildrenNumber": {none, noNode, noAuth},
		"whoAmI":               {none},
		"closeSession":         {none},
		"raw":                  {unimplemented},
		"connect":              {done, ended},
		"drop":                 {done},
		"frame":                {ended},
		"(multi)": {
			none, noNode, noAuth, badVersion, exists, badArguments, invalidACL, "-108", "-111", "-125", unimplemented,
		},
		"(events)": {"1", "2", "3", "4"},
	}
}

// missing lists the outcomes that a run should have seen but hasn't.
func (c coverage) missing() []string {
	var gaps []string
	want := typical()
	for _, word := range slices.Sorted(maps.Keys(want)) {
		for _, outcome := range want[word] {
			if c[word][outcome] == 0 {
				gaps = append(gaps, word+" "+outcome)
			}
		}
	}
	return gaps
}
