package framework

import (
	"bytes"
	"sync"
)

// Log holds the output of a process. It can be read while the process writes.
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

// String returns the output so far, except for output that Take has dropped.
func (l *Log) String() string { return string(l.Bytes()) }

// Bytes returns a copy of the output so far, except for output that Take has dropped.
func (l *Log) Bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes())
}

// Take returns the output since the last Take, and drops the output: a process that runs for hours
// writes more than a test can hold in memory.
func (l *Log) Take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.Clone(l.text.Bytes())
	l.text.Reset()
	return text
}
