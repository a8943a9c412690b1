package metrics

import (
	"math"
	"strconv"
	"strings"
)

// Value is one number of a metric: an integer or a float.
type Value struct {
	whole    int64
	fraction float64
	isFloat  bool
}

// Int returns an integer value; it prints without a fraction.
func Int(n int64) Value { return Value{whole: n} }

// Float returns a float value; it prints as a Java double: 5.0, 0.7143, 1.0E7.
func Float(f float64) Value { return Value{fraction: f, isFloat: true} }

// Float64 returns the number as a float64; integers beyond 2^53 lose precision.
func (v Value) Float64() float64 {
	if v.isFloat {
		return v.fraction
	}
	return float64(v.whole)
}

// String formats the value as mntr does.
func (v Value) String() string {
	if v.isFloat {
		return javaDouble(v.fraction)
	}
	return strconv.FormatInt(v.whole, 10)
}

// MarshalJSON writes the number as the admin server does. JSON lacks NaN and infinities, so they are strings.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.isFloat && (math.IsNaN(v.fraction) || math.IsInf(v.fraction, 0)) {
		return []byte(`"` + v.String() + `"`), nil
	}
	return []byte(v.String()), nil
}

// Java writes doubles from plainLow up to plainHigh without an exponent.
const (
	plainLow  = 1e-3
	plainHigh = 1e7
)

// javaDouble formats f as Double.toString does since Java 19: with the shortest digits that parse as f, but at least
// two, choosing the nearer pair where one digit would do.
func javaDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0:
		return strconv.FormatFloat(f, 'f', 1, 64) // 0.0 or -0.0
	}
	if abs := math.Abs(f); abs >= plainLow && abs < plainHigh {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	if !strings.Contains(s, ".") {
		s = strconv.FormatFloat(f, 'e', 1, 64)
	}
	digits, exponent, _ := strings.Cut(s, "e")
	power, _ := strconv.Atoi(exponent)
	return digits + "E" + strconv.Itoa(power)
}
