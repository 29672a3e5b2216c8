package postgresql

import (
	"bytes"
	"encoding/binary"
	"io"
	"strconv"

	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// maxIterations limits the iterations of SCRAM in a login. 100,000 iterations take about 25 ms of CPU
	// time. PostgreSQL's default is 4,096.
	maxIterations = 100_000
	// maxLoginMessages limits how many messages about the login a server may send. SCRAM, the longest login,
	// has four. A second challenge would be the fifth.
	maxLoginMessages = 4
	maxLoginMessage  = 4 << 10 // bytes
)

// Messages of the server (https://www.postgresql.org/docs/current/protocol-message-formats.html).
const (
	messageHeader    = 5   // bytes: the type, and the length
	lengthOfLength   = 4   // bytes; the length of a message includes these bytes, but not the type
	aboutLogin       = 'R' // Authentication…
	challengeOfScram = "i="
)

// inspector reads a server's messages, after TLS decryption, and passes them on one by one. It rejects logins
// that cost too much CPU time before the client computes anything for them.
type inspector struct {
	in      io.Reader
	message bytes.Reader // the rest of the message to pass on
	logins  int          // the number of messages about the login
}

// Read implements io.Reader.
func (i *inspector) Read(into []byte) (int, error) {
	if i.message.Len() == 0 {
		if err := i.next(); err != nil {
			return 0, err
		}
	}
	return i.message.Read(into)
}

// next reads a message of the server. It rejects a message of more than maxMessage bytes.
func (i *inspector) next() error {
	header := make([]byte, messageHeader)
	if _, err := io.ReadFull(i.in, header); err != nil {
		return err
	}
	length := int64(binary.BigEndian.Uint32(header[1:])) - lengthOfLength
	if length < 0 || length > maxMessage {
		return errTooMuch
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(i.in, body); err != nil {
		return err
	}
	if header[0] == aboutLogin {
		if err := i.login(body); err != nil {
			return err
		}
	}
	i.message.Reset(append(header, body...))
	return nil
}

// login rejects a message about the login if the message is too long, is one too many, or asks for too many iterations.
func (i *inspector) login(body []byte) error {
	if i.logins++; i.logins > maxLoginMessages || len(body) > maxLoginMessage {
		return errTooMuch
	}
	var challenge pgproto3.AuthenticationSASLContinue
	if challenge.Decode(body) != nil {
		return nil // not a challenge of SCRAM
	}
	return checkChallenge(challenge.Data)
}

// checkChallenge rejects a challenge of SCRAM that asks for too many iterations. It parses r=…,s=…,i=N (RFC 5802) as
// pgconn does. pgconn rejects all other formats.
func checkChallenge(data []byte) error {
	fields := bytes.SplitN(data, []byte(","), 3)
	text, found := bytes.CutPrefix(fields[len(fields)-1], []byte(challengeOfScram))
	if iterations, err := strconv.Atoi(string(text)); found && err == nil && iterations > maxIterations {
		return NewError(Rejected, "the server asks for %d SCRAM iterations, but the operator computes at most %d: "+
			"lower scram_iterations on the server, and set the password again", iterations, maxIterations)
	}
	return nil
}
