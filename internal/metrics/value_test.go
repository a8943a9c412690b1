package metrics

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
)

func TestFloatsPrintAsJavaDoubles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    float64
		want string // Double.toString, OpenJDK 17 where not noted
	}{
		{0.7143, "0.7143"}, {5, "5.0"}, {0, "0.0"}, {math.Copysign(0, -1), "-0.0"}, {1e7, "1.0E7"},
		{9999999.999, "9999999.999"}, {1e-3, "0.001"}, {9.99e-4, "9.99E-4"}, {1e21, "1.0E21"},
		{123456789.5, "1.234567895E8"}, {1e-5, "1.0E-5"}, {100, "100.0"}, {1234567, "1234567.0"},
		{0.30000000000000004, "0.30000000000000004"}, {math.SmallestNonzeroFloat64, "4.9E-324"},
		{math.MaxFloat64, "1.7976931348623157E308"}, {12345678.9, "1.23456789E7"}, {2e-3, "0.002"}, {1e22, "1.0E22"},
		{4.35, "4.35"}, {1e10 / 3, "3.3333333333333335E9"}, {-0.5, "-0.5"}, {-1e8, "-1.0E8"},
		{1e23, "1.0E23"}, // Java 19 and later; Java 17 has 9.999999999999999E22
		{math.NaN(), "NaN"}, {math.Inf(1), "Infinity"}, {math.Inf(-1), "-Infinity"},
	} {
		if got := Float(c.f).String(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.f, got, c.want)
		}
	}
}

func TestFloatsReadBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for bits := uint64(1); bits < 1<<62; bits = bits*3 + 12345 {
		f := math.Float64frombits(bits)
		back, err := strconv.ParseFloat(Float(f).String(), 64)
		if err != nil || back != f {
			t.Errorf("%b printed as %s reads back as %v, %v", f, Float(f), back, err)
		}
	}
}

func TestIntsPrintPlainAndJSONIsValid(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal([]Value{Int(44), Int(math.MinInt64), Float(5), Float(1e7), Float(math.NaN())})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[44,-9223372036854775808,5.0,1.0E7,"NaN"]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
