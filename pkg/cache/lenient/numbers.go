package lenient

import (
	"bytes"
	"slices"

	apijson "k8s.io/apimachinery/pkg/util/json"
)

// Limits within which a quantity is fast to parse. A quantity that Kubernetes formats does not exceed them.
const (
	maxNumber   = 64 // characters
	maxExponent = 3  // digits
)

// Check returns an error unless data can be decoded into a T. Check is fast for all quantities in data.
func Check[T any](data []byte) error {
	var typed T
	fast, _ := withoutSlowNumbers(data)
	return apijson.Unmarshal(fast, &typed)
}

// withoutSlowNumbers returns a copy of data in which each number that exceeds a limit has an exclamation mark.
// found reports whether there is such a number. A string can have an exclamation mark, but a quantity cannot: the copy
// can be decoded unless one of the numbers is a quantity. resource.ParseQuantity takes a minute for 1e-100000000.
func withoutSlowNumbers(data []byte) (fast []byte, found bool) {
	fast, run := data, 0 // run is the length of the number that ends before data[i]
	for i, c := range data {
		isSlow := false
		switch {
		case isDigit(c), c == '.':
			if run > 0 || startsValue(data[:i]) {
				run++
			}
			isSlow = run > maxNumber
		case c == 'e', c == 'E':
			isSlow = run > 0 && isLongExponent(data[i+1:])
			run = 0
		default:
			run = 0
		}
		if !isSlow {
			continue
		}
		if !found {
			fast, found = slices.Clone(data), true
		}
		fast[i], run = '!', 0
	}
	return fast, found
}

// startsValue reports whether a JSON value, or the text of a string, begins after before. Digits in the middle of a
// text, such as in an image digest or a UID, are not a number.
func startsValue(before []byte) bool {
	before = bytes.TrimRight(before, "+-")
	return len(before) == 0 || bytes.ContainsAny(before[len(before)-1:], "\":,[ \t\r\n")
}

// isLongExponent reports whether text starts with an exponent of more than maxExponent digits, without leading zeros.
func isLongExponent(text []byte) bool {
	text = bytes.TrimLeft(text, "+-0")
	return len(text) > maxExponent && !slices.ContainsFunc(text[:maxExponent+1], func(c byte) bool { return !isDigit(c) })
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
