package postgres

import (
	"bytes"
	"sync"
)

// log is what is written while it is read.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
