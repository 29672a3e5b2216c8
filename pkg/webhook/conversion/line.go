package conversion

import (
	"slices"
	"strings"
)

// shell lists the first words of a v1 command that runs a v1alpha1 command, which is one line.
var shell = []string{"/bin/sh", "-c"}

// plain is the set of characters that have no special meaning to a shell at any position in a word. See
// "Token Recognition" and "Quoting" in POSIX, Shell Command Language.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

// reserved lists words that a shell takes for a command only if they are quoted. It omits words with a special
// character, because quote always quotes them.
var reserved = []string{
	"case", "do", "done", "elif", "else", "esac", "fi", "for", "function",
	"if", "in", "select", "then", "time", "until", "while",
}

// quote joins words into a line that a POSIX shell splits into the same words. It puts a word in single
// quotes only if necessary.
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
	// Without quotes the first word would be an assignment or a reserved word.
	if first && (strings.Contains(word, "=") || slices.Contains(reserved, word)) {
		return true
	}
	return word == "" || strings.Trim(word, plain) != ""
}
