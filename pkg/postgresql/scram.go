package postgresql

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

const (
	scramIterations = 4096 // the default of PostgreSQL; each login computes this number of iterations
	scramSalt       = 16   // bytes
)

// verifier returns the SCRAM verifier of a password (RFC 5803, in the format of PostgreSQL's
// src/common/scram-common.c). A server can check a password with the verifier, but a client cannot log in with the
// verifier. A log of statements may therefore contain it. The password must be printable ASCII, which SASLprep does not
// change.
func verifier(password string) (string, error) {
	salt := make([]byte, scramSalt)
	_, _ = rand.Read(salt) // rand.Read never fails, as its documentation says
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hashing the password: %w", err)
	}
	mac := func(message string) []byte {
		hash := hmac.New(sha256.New, salted)
		hash.Write([]byte(message))
		return hash.Sum(nil)
	}
	storedKey := sha256.Sum256(mac("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, encode(salt), encode(storedKey[:]),
		encode(mac("Server Key"))), nil
}
