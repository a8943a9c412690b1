package auth

import (
	"math"
	"strings"
)

// dnKeywords are the attribute names that Java's X500Principal knows.
var dnKeywords = map[string]bool{
	"CN": true, "C": true, "L": true, "S": true, "ST": true, "O": true, "OU": true, "T": true,
	"IP": true, "STREET": true, "DC": true, "DNQUALIFIER": true, "DNQ": true, "SURNAME": true,
	"GIVENNAME": true, "INITIALS": true, "GENERATION": true, "EMAIL": true, "EMAILADDRESS": true,
	"UID": true, "SERIALNUMBER": true,
}

// validDN reports whether s has the form of a distinguished name that X500Principal accepts:
// name=value pairs separated by commas, semicolons or plus signs. A name is a known keyword or a
// dotted number. A value is quoted, or "#" and hex digits (whose content isn't checked), or text
// with special characters escaped by a backslash. The empty name is valid.
func validDN(s string) bool {
	if s == "" {
		return true
	}
	for {
		name, rest, found := strings.Cut(s, "=")
		if !found || !validAttribute(strings.TrimSpace(name)) {
			return false
		}
		n, ok := dnValueLen(rest)
		if !ok {
			return false
		}
		if n == len(rest) {
			return true
		}
		s = rest[n+1:]
	}
}

// validAttribute reports whether name is a keyword or an object identifier,
// whose first number is 0 to 2 and whose second is below 40 unless the first is 2.
func validAttribute(name string) bool {
	name = strings.ToUpper(name)
	if dnKeywords[name] {
		return true
	}
	arcs := strings.Split(strings.TrimPrefix(name, "OID."), ".")
	if len(arcs) < 2 {
		return false
	}
	first, ok := parseUint(arcs[0], 10, 2)
	second, ok2 := parseUint(arcs[1], 10, math.MaxInt32)
	if !ok || !ok2 || first < 2 && second >= 40 {
		return false
	}
	for _, arc := range arcs[2:] {
		if arc == "" || strings.Trim(arc, "0123456789") != "" {
			return false
		}
	}
	return true
}

const (
	dnSeparators = ",;+"
	dnEscapable  = ",+=\n<>#;\\\" " // in addition to two hex digits
	hexDigits    = "0123456789abcdefABCDEF"
)

// dnValueLen returns the length of the value at the start of s, up to the next separator or the end.
func dnValueLen(s string) (int, bool) {
	begin := len(s) - len(strings.TrimLeft(s, " \n"))
	if begin < len(s) && s[begin] == '"' {
		return dnQuotedLen(s, begin+1)
	}
	if begin < len(s) && s[begin] == '#' {
		end := len(s) - len(strings.TrimLeft(s[begin+1:], hexDigits))
		digits := end - begin - 1
		return end, digits >= 4 && digits%2 == 0 && (end == len(s) || strings.IndexByte(dnSeparators, s[end]) >= 0)
	}
	i := dnIndex(s, begin, dnSeparators+`"<>`)
	return max(i, 0), i == len(s) || i >= 0 && strings.IndexByte(dnSeparators, s[i]) >= 0
}

// dnQuotedLen is dnValueLen for a quoted value; its opening quote is just before begin.
func dnQuotedLen(s string, begin int) (int, bool) {
	i := dnIndex(s, begin, `"`)
	if i < 0 || i == len(s) {
		return 0, false
	}
	end := len(s) - len(strings.TrimLeft(s[i+1:], " \n"))
	return end, end == len(s) || strings.IndexByte(dnSeparators, s[end]) >= 0
}

// dnIndex returns the index of the first unescaped byte of s, from begin on, that is in stops. It returns len(s) if
// there is none, and -1 if an escape before it is invalid.
func dnIndex(s string, begin int, stops string) int {
	for i := begin; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			n := dnEscapeLen(s[i+1:])
			if n == 0 {
				return -1
			}
			i += n
		case strings.IndexByte(stops, s[i]) >= 0:
			return i
		}
	}
	return len(s)
}

// dnEscapeLen returns how many bytes at the start of s a preceding backslash escapes, 0 if it can't escape them.
func dnEscapeLen(s string) int {
	switch {
	case s == "":
		return 0
	case strings.IndexByte(dnEscapable, s[0]) >= 0:
		return 1
	case len(s) > 1 && strings.Trim(s[:2], hexDigits) == "":
		return 2
	}
	return 0
}
