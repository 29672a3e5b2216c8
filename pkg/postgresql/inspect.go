package postgresql

import (
	"bytes"
	"encoding/binary"
	"io"
	"strconv"
)

const (
	// maxIterations is how often a login hashes the password at most: 100,000 times take
	// some 25 ms of CPU time. PostgreSQL's default is 4,096.
	maxIterations = 100_000
	// maxLoginMessages is how many messages about the login a server may send: SCRAM, the
	// longest, has four.
	maxLoginMessages = 8
	maxLoginMessage  = 4 << 10 // bytes
)

// Messages of the server
// (https://www.postgresql.org/docs/current/protocol-message-formats.html).
const (
	messageHeader    = 5   // bytes: the type, and the length without the type
	aboutLogin       = 'R' // Authentication…
	scramChallenge   = 11  // AuthenticationSASLContinue
	lengthOfLength   = 4
	lengthOfSubtype  = 4
	shortestLogin    = lengthOfLength + lengthOfSubtype
	challengeOfScram = "i="
)

// inspector passes on what a server says, message by message, after TLS. It refuses
// logins that cost too much before anything is computed for them.
type inspector struct {
	in         io.Reader
	ready      []byte // inspected, and to be passed on
	unread     int    // bytes of the message that are passed on as they come
	logins     int
	challenges int
}

// Read implements io.Reader.
func (i *inspector) Read(into []byte) (int, error) {
	if len(i.ready) == 0 && i.unread == 0 {
		if err := i.next(); err != nil {
			return 0, err
		}
	}
	if len(i.ready) > 0 {
		n := copy(into, i.ready)
		i.ready = i.ready[n:]
		return n, nil
	}
	n, err := i.in.Read(into[:min(len(into), i.unread)])
	i.unread -= n
	return n, err
}

// next reads the head of a message, and all of one that is about the login.
func (i *inspector) next() error {
	head := make([]byte, messageHeader)
	if _, err := io.ReadFull(i.in, head); err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	i.ready, i.unread = head, int(max(0, min(length, maxMessage+lengthOfLength+1)-lengthOfLength)) // a longer one is refused by its head
	if head[0] != aboutLogin {
		return nil
	}
	if i.logins++; i.logins > maxLoginMessages || length < shortestLogin || length > maxLoginMessage {
		return errTooMuch
	}
	body := make([]byte, length-lengthOfLength)
	if _, err := io.ReadFull(i.in, body); err != nil {
		return err
	}
	i.ready, i.unread = append(head, body...), 0
	if binary.BigEndian.Uint32(body) != scramChallenge {
		return nil
	}
	return i.challenge(body[lengthOfSubtype:])
}

// challenge refuses one that asks for too many iterations, and a second one. It reads
// r=…,s=…,i=N as RFC 5802 and pgconn do, which refuses whatever is not like that.
func (i *inspector) challenge(data []byte) error {
	if i.challenges++; i.challenges > 1 {
		return errTooMuch
	}
	parts := bytes.SplitN(data, []byte(","), 3)
	text, found := bytes.CutPrefix(parts[len(parts)-1], []byte(challengeOfScram))
	if iterations, err := strconv.Atoi(string(text)); found && err == nil && iterations > maxIterations {
		return NewError(Rejected, "the server asks for %d iterations of SCRAM, and %d are computed at most: set scram_iterations there, and the password anew", iterations, maxIterations)
	}
	return nil
}
