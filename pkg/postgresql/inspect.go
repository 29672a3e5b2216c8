package postgresql

import (
	"bytes"
	"encoding/binary"
	"io"
	"strconv"
)

const (
	// maxIterations limits the iterations of SCRAM in a login. 100,000 iterations take about 25 ms of CPU
	// time. PostgreSQL's default is 4,096.
	maxIterations = 100_000
	// maxLoginMessages limits how many messages about the login a server may send. SCRAM, the longest login,
	// has four.
	maxLoginMessages = 8
	maxLoginMessage  = 4 << 10 // bytes
)

// Messages of the server (https://www.postgresql.org/docs/current/protocol-message-formats.html).
const (
	messageHeader    = 5   // bytes: the type, and the length, which does not count the type
	aboutLogin       = 'R' // Authentication…
	scramChallenge   = 11  // AuthenticationSASLContinue
	lengthOfLength   = 4
	lengthOfSubtype  = 4
	shortestLogin    = lengthOfLength + lengthOfSubtype
	challengeOfScram = "i="
)

// inspector reads a server's messages, after TLS decryption, and passes them on one by one. It rejects logins
// that cost too much CPU time before the client computes anything for them.
type inspector struct {
	in         io.Reader
	ready      []byte // inspected bytes to pass on
	unread     int    // how many bytes of the message to pass on without inspection
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

// next reads the header of a message. If the message is about the login, it reads the body too.
func (i *inspector) next() error {
	head := make([]byte, messageHeader)
	if _, err := io.ReadFull(i.in, head); err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(head[1:]))
	// pgproto3 rejects a longer message by its header
	i.ready, i.unread = head, int(max(0, min(length, maxMessage+lengthOfLength+1)-lengthOfLength))
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

// challenge rejects a challenge of SCRAM that asks for too many iterations, and a second challenge in one
// login. It parses r=…,s=…,i=N (RFC 5802) as pgconn does. pgconn rejects all other formats.
func (i *inspector) challenge(data []byte) error {
	if i.challenges++; i.challenges > 1 {
		return errTooMuch
	}
	parts := bytes.SplitN(data, []byte(","), 3)
	text, found := bytes.CutPrefix(parts[len(parts)-1], []byte(challengeOfScram))
	if iterations, err := strconv.Atoi(string(text)); found && err == nil && iterations > maxIterations {
		return NewError(Rejected, "the server asks for %d SCRAM iterations, but the operator computes at most %d: "+
			"lower scram_iterations on the server, and set the password again", iterations, maxIterations)
	}
	return nil
}
