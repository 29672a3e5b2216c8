package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// rootCert is the file of the CA that the URI in a connection Secret names, as a parameter of the URI.
const rootCert = "%2Fetc%2Fwindlass%2Fdatabase%2Fca.crt"

// ParseURI parses the URI in the data of a connection Secret, as a client in a Pod with a mounted CA does. Clients on
// this machine read the CA from another file.
func ParseURI(t *testing.T, data map[string][]byte) (*pgx.ConnConfig, error) {
	t.Helper()
	uri := string(data["uri"])
	if strings.Contains(uri, rootCert) {
		file := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(file, data["ca.crt"], 0o600); err != nil {
			t.Fatal(err)
		}
		uri = strings.ReplaceAll(uri, rootCert, file)
	}
	config, err := pgx.ParseConfig(uri)
	if err != nil {
		return nil, fmt.Errorf("parsing the uri of a connection Secret: %w", err)
	}
	return config, nil
}
