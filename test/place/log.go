package place

import (
	"bytes"
	"sync"
)

// Log is what a process has written. It can be read while the process writes.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String returns what was written so far.
func (l *Log) String() string { return string(l.Bytes()) }

// Bytes returns a copy of what was written so far.
func (l *Log) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}

// Take returns what was written since the last Take, and forgets it: a process that runs for
// hours writes more than a test should hold.
func (l *Log) Take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.Clone(l.text.Bytes())
	l.text.Reset()
	return text
}
