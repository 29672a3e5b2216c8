package conversion

import (
	"slices"
	"strings"
)

// shell runs a line: v1's way to say a command of v1alpha1.
var shell = []string{"/bin/sh", "-c"}

// plain are the characters that mean nothing to a shell, wherever they stand in
// a word. See "Token Recognition" and "Quoting" in POSIX, Shell Command Language.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// reserved are words that a shell does not take for a command unless they are
// quoted. Those with a special character in them are quoted anyway.
var reserved = []string{
	"case", "do", "done", "elif", "else", "esac", "fi", "for", "function",
	"if", "in", "select", "then", "time", "until", "while",
}

// quote writes words as a line that a POSIX shell takes apart into the same
// words again. A word stands in single quotes only where it has to.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = word
		if needsQuotes(word, i == 0) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(word string, first bool) bool {
	// The first word would be an assignment, or the start of a loop.
	if first && (strings.Contains(word, "=") || slices.Contains(reserved, word)) {
		return true
	}
	return word == "" || strings.Trim(word, plain) != ""
}
