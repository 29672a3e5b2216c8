package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Catalog declares the messages of a kind, or of a package that several kinds use, so that docs/messages.md lists each
// of them. Declare all messages of a package in variables.
type Catalog struct {
	// Title is the kind, or what the messages of the package are about.
	Title    string
	messages []*Message
}

// NewCatalog returns an empty catalog.
func NewCatalog(title string) *Catalog { return &Catalog{Title: title} }

// Messages returns the declared messages, in the order of their declaration.
func (c *Catalog) Messages() []*Message { return slices.Clone(c.messages) }

// Message is a message that users meet in a condition or in an Event.
type Message struct {
	// Reason is the reason of the condition or Event. It is "" for a message that is part of another message.
	Reason string
	// Template is the message. It has placeholders such as {pod}.
	Template string
	// Advice says what users do, or that there is nothing to do.
	Advice string

	used atomic.Bool
}

// Declare adds a message to the catalog, and returns it.
func (c *Catalog) Declare(reason, template, advice string) *Message {
	m := &Message{Reason: reason, Template: template, Advice: advice}
	c.messages = append(c.messages, m)
	return m
}

// With returns the message with values for its placeholders, in the order in which the placeholders first appear. A
// placeholder without a value stays as it is.
func (m *Message) With(values ...any) string {
	m.used.Store(true)
	names := m.Placeholders()
	pairs := make([]string, 0, 2*len(names))
	for i, name := range names[:min(len(names), len(values))] {
		pairs = append(pairs, name, fmt.Sprint(values[i]))
	}
	return strings.NewReplacer(pairs...).Replace(m.Template)
}

// Placeholders returns the placeholders of the message, with braces, each once, in the order in which they first
// appear.
func (m *Message) Placeholders() (names []string) {
	for rest := m.Template; ; {
		_, after, found := strings.Cut(rest, "{")
		name, remaining, closed := strings.Cut(after, "}")
		if !found || !closed {
			return names
		}
		if name = "{" + name + "}"; !slices.Contains(names, name) {
			names = append(names, name)
		}
		rest = remaining
	}
}

// Note returns the reason, and the message with values for its placeholders.
func (m *Message) Note(values ...any) Note { return Note{Reason: m.Reason, Message: m.With(values...)} }

// Wait returns the error of WaitFor with the reason and the message.
func (m *Message) Wait(after time.Duration, values ...any) error {
	return WaitFor(m.Reason, m.With(values...), after)
}

// Error returns an error with the reason and the message. It wraps the values that are errors.
func (m *Message) Error(values ...any) error {
	causes := []error{}
	for _, value := range values {
		if err, ok := value.(error); ok {
			causes = append(causes, err)
		}
	}
	return WithReason(m.Reason, &messageError{text: m.With(values...), causes: errors.Join(causes...)})
}

// messageError is an error with the text of a message.
type messageError struct {
	text   string
	causes error
}

func (e *messageError) Error() string { return e.text }
func (e *messageError) Unwrap() error { return e.causes }

// Unused returns the messages of the catalog that this process has not used. Tests use it to check that each message
// appears.
func (c *Catalog) Unused() (unused []string) {
	for _, m := range c.messages {
		if !m.used.Load() {
			unused = append(unused, m.Reason+": "+m.Template)
		}
	}
	return unused
}
