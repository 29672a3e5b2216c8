package fuzz

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

var expressions sync.Map // maps a pattern to its *regexp.Regexp

// compiled returns the compiled pattern of a schema, and caches it. For a pattern that Go cannot compile, it returns a
// pattern that matches all strings. The API server would reject a schema with such a pattern.
func compiled(pattern string) *regexp.Regexp {
	if known, ok := expressions.Load(pattern); ok {
		return known.(*regexp.Regexp)
	}
	expression, err := regexp.Compile(pattern)
	if err != nil {
		expression = regexp.MustCompile("")
	}
	expressions.Store(pattern, expression)
	return expression
}

// fromPattern generates a string from a pattern. The string has at most about length characters. Unless wild is true,
// the string has few repetitions and only ordinary characters.
func (m *maker) fromPattern(pattern string, wild bool, length int) string {
	expression, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	var text strings.Builder
	m.write(&text, expression, wild, length)
	return text.String()
}

func (m *maker) write(text *strings.Builder, e *syntax.Regexp, wild bool, length int) {
	switch e.Op {
	case syntax.OpLiteral:
		for _, r := range e.Rune {
			text.WriteRune(r)
		}
	case syntax.OpCharClass:
		text.WriteRune(m.runeOf(e.Rune, wild))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text.WriteRune(m.runeOf([]rune{' ', '~', 0xa1, 0x10ffff}, wild))
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		for range m.times(e, wild, length-text.Len()) {
			m.write(text, e.Sub[0], wild, length)
		}
	case syntax.OpAlternate:
		m.write(text, one(m.Rand, e.Sub), wild, length)
	case syntax.OpConcat, syntax.OpCapture:
		for _, part := range e.Sub {
			m.write(text, part, wild, length)
		}
	}
}

// times returns a random number of repetitions for a part of a pattern. room is the number of characters by which the
// string may still grow.
func (m *maker) times(e *syntax.Regexp, wild bool, room int) int {
	least, most := e.Min, e.Max
	switch e.Op {
	case syntax.OpStar:
		least, most = 0, -1
	case syntax.OpPlus:
		least, most = 1, -1
	case syntax.OpQuest:
		least, most = 0, 1
	}
	if most < 0 || most > max(room, least) {
		most = max(room, least)
	}
	if !wild {
		return min(least+m.IntN(3), most)
	}
	return []int{least, min(least+1, most), least + m.IntN(1+min(most-least, 20)), most}[weighted(m.Rand, 3, 3, 3, 1)]
}

// runeOf returns a character of a class. ranges holds the first and last character of each range.
func (m *maker) runeOf(ranges []rune, wild bool) rune {
	at := 2 * m.IntN(len(ranges)/2)
	if !wild {
		for i := 0; i < len(ranges); i += 2 {
			if ranges[i] <= 'z' && ranges[i+1] >= 'a' {
				return 'a' + rune(m.IntN(26))
			}
			if ranges[i] <= '9' && ranges[i+1] >= '0' {
				at = i
			}
		}
	}
	first, last := ranges[at], ranges[at+1]
	if wild && m.chance(0.3) {
		return one(m.Rand, []rune{first, last})
	}
	return first + rune(m.IntN(min(int(last-first)+1, 200)))
}
