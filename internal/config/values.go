package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// assign parses value as the row says and stores it in the row's field; without a field it only checks the value.
// note is set for a value that is accepted, but may not mean what its writer thinks.
func (k key) assign(c *Config, value string) (note string, err error) {
	var to any
	if k.field != nil {
		to = k.field(c)
	}
	if k.oneOf != nil {
		i := slices.IndexFunc(k.oneOf, func(s string) bool { return strings.EqualFold(s, value) })
		if i < 0 {
			return "", fmt.Errorf("allowed: %s", alternatives(k.oneOf))
		}
		value = k.oneOf[i]
	}
	switch k.kind {
	case boolean, yesNo:
		return k.assignBool(to, value)
	case integer, long, javaInt, millis, seconds, interval:
		return k.assignNumber(to, value)
	case decimal:
		return "", k.assignDecimal(to, value)
	case list:
		if p, ok := to.(*[]string); ok {
			*p = listed(value)
		}
		return "", nil
	}
	switch p := to.(type) {
	case *string:
		*p = value
	case *Secret:
		*p = Secret(value)
	}
	return "", nil
}

func (k key) assignBool(to any, value string) (note string, err error) {
	is, isNot := strings.EqualFold(value, "true"), strings.EqualFold(value, "false")
	switch {
	case k.kind == yesNo:
		is = k.isYes(value)
		if word := map[bool]string{true: "yes", false: "no"}[is]; value != word {
			other := map[bool]string{true: "no", false: "yes"}[is]
			note = fmt.Sprintf("read as %s, as Apache does with anything but the word %s; write yes or no", word, other)
		}
	case !is && !isNot && k.where == inFile && !k.lax:
		return "", fmt.Errorf("allowed: true or false")
	case !is && !isNot:
		note = "read as false, as Apache does with anything but true; write true or false"
	}
	if p, ok := to.(*bool); ok {
		*p = is
	}
	return note, nil
}

// isYes reads a value of kind yesNo. Apache compares it with the one word that changes the default.
func (k key) isYes(value string) bool {
	if k.value == "yes" {
		return value != "no"
	}
	return value == "yes"
}

// unitOf is the duration that the number 1 means, by kind.
var unitOf = map[kind]time.Duration{millis: time.Millisecond, seconds: time.Second, interval: time.Hour}

func (k key) assignNumber(to any, value string) (note string, err error) {
	digits, base, unit := value, 10, unitOf[k.kind]
	switch {
	case k.kind == interval:
		digits, unit = cutUnit(value)
	case k.kind == javaInt || k.lax:
		digits, base = cutBase(value)
	}
	bits := 32
	if k.kind == long || k.kind == interval || k.high > math.MaxInt32 {
		bits = 64
	}
	n, err := strconv.ParseInt(digits, base, bits)
	if err != nil && k.lax {
		note = fmt.Sprintf("read as %s, the default, as Apache does with what it can't read as a number; write a whole number",
			k.value)
		n, err = strconv.ParseInt(k.value, 10, 64)
	}
	if err == nil && k.orLess && n < k.low {
		if k.lax && k.low >= 0 { // otherwise both mean that there is no limit
			note = fmt.Sprintf("%d is raised to %d, the least allowed", n, k.low)
		}
		n = k.low
	}
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if bits == 32 {
		low, high = math.MinInt32, math.MaxInt32
	}
	if k.bounded {
		low, high = k.low, k.high
	}
	if err != nil || n < low || n > high || unit > 0 && n > math.MaxInt64/int64(unit) {
		what := map[kind]string{millis: " of milliseconds", seconds: " of seconds",
			interval: " of hours, or with one of ms, s, m, h, d after it, up to 292 years,"}[k.kind]
		because := ""
		if k.limit != "" {
			because = ": " + k.limit
		}
		return "", fmt.Errorf("allowed: a whole number%s from %d to %d%s", what, low, high, because)
	}
	switch p := to.(type) {
	case *int:
		*p = int(n)
	case *int64:
		*p = n
	case *time.Duration:
		*p = time.Duration(n) * unit
	}
	return note, nil
}

// cutUnit splits an interval into its number and unit; a bare number counts hours.
func cutUnit(value string) (digits string, unit time.Duration) {
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}} {
		if digits, ok := strings.CutSuffix(value, u.suffix); ok {
			return digits, u.unit
		}
	}
	return value, time.Hour
}

// cutBase reads the prefixes of Java's Integer.decode: 0x, 0X and # for hexadecimal, 0 for octal, after a sign.
func cutBase(value string) (digits string, base int) {
	sign, rest := "", value
	if value != "" && (value[0] == '-' || value[0] == '+') {
		sign, rest = value[:1], value[1:]
	}
	for _, prefix := range []string{"0x", "0X", "#"} {
		if digits, ok := strings.CutPrefix(rest, prefix); ok && !strings.ContainsAny(digits, "+-") {
			return sign + digits, 16
		}
	}
	if len(rest) > 1 && rest[0] == '0' {
		return sign + rest[1:], 8
	}
	return value, 10
}

func (k key) assignDecimal(to any, value string) error {
	f, err := strconv.ParseFloat(value, 64)
	bad := err != nil || math.IsNaN(f) || math.IsInf(f, 0)
	if k.bounded && (bad || f < float64(k.low) || f > float64(k.high)) {
		return fmt.Errorf("allowed: a number from %d to %d", k.low, k.high)
	}
	if bad {
		return fmt.Errorf("allowed: a number")
	}
	if p, ok := to.(*float64); ok {
		*p = f
	}
	return nil
}

// alternatives lists values in a sentence.
func alternatives(values []string) string {
	var named []string
	for _, v := range values {
		if v == "" {
			v = "nothing"
		}
		named = append(named, v)
	}
	if len(named) == 1 {
		return named[0]
	}
	return strings.Join(named[:len(named)-1], ", ") + " or " + named[len(named)-1]
}
