package lenient

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits within which a quantity is fast to parse. A quantity that Kubernetes formats does not exceed them.
const (
	maxQuantity = 64 // characters
	maxExponent = 3  // digits
)

// isSlow reports whether JSON may contain a quantity that is slow to parse. It takes about a nanosecond for
// each byte.
func isSlow(data []byte) bool {
	run := 0 // the length of the number that ends before data[i]
	for i, c := range data {
		switch {
		case '0' <= c && c <= '9', c == '.', c == '+', c == '-':
			if run++; run > maxQuantity {
				return true
			}
		case run > 0 && (c == 'e' || c == 'E'):
			if startsValue(data, i-run) && isHuge(data[i+1:]) {
				return true
			}
			run = 0
		default:
			run = 0
		}
	}
	return false
}

// startsValue reports whether a JSON value may start at the offset at.
func startsValue(data []byte, at int) bool {
	return at == 0 || strings.IndexByte("\" :,[\t\n\r", data[at-1]) >= 0
}

// isHuge reports whether text starts with an exponent of more than maxExponent digits, without leading
// zeros.
func isHuge[T string | []byte](text T) bool {
	digits := 0
	for i := range len(text) {
		switch c := text[i]; {
		case i == 0 && (c == '+' || c == '-'), digits == 0 && c == '0':
		case '0' <= c && c <= '9':
			if digits++; digits > maxExponent {
				return true
			}
		default:
			return false
		}
	}
	return false
}

// checkQuantity returns an error if text is not a quantity, or may be slow to parse.
func checkQuantity(text string) error {
	if len(text) > maxQuantity {
		return fmt.Errorf("a quantity has at most %d characters", maxQuantity)
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && isHuge(text[i+1:]) {
		return fmt.Errorf("the exponent of a quantity has at most %d digits", maxExponent)
	}
	if _, err := resource.ParseQuantity(text); err != nil {
		return fmt.Errorf("expected quantity such as 100m or 64Mi")
	}
	return nil
}
