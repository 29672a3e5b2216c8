package postgresql

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// ServerSettings are the settings of a server of a Database, as a client sees them after its login.
type ServerSettings struct {
	// Revision identifies the settings that the server loaded at its start or at its last reload.
	Revision string `json:"revision"`
	// Problem says which settings the server has not got, and why. It has at most 1 KiB, on one line.
	Problem string `json:"problem"`
	// PendingRestart are the names of the parameters whose new value takes effect at the next start. There are at most
	// 32.
	PendingRestart []string `json:"pendingRestart"`
	// Volume says how full the volume of the server is.
	Volume VolumeUsage `json:"volume"`
	// Backup is what the server says about its backup.
	Backup Backup `json:"backup"`
	// Certificate is the certificate that the server presented, in DER form. It is nil without TLS.
	Certificate []byte `json:"-"`
}

// VolumeUsage is how full a volume is. The zero value means that this is not known.
type VolumeUsage struct {
	// Percent is the percentage of the volume that is used, as a threshold of volume.sh in package database. It is 0
	// below the lowest threshold, and 100 if transactions are read-only because of the volume.
	Percent int32
	// Bytes is the size of the file system.
	Bytes int64
}

// volumeText matches the percentage and the size in KiB.
var volumeText = regexp.MustCompile(`^(\d{1,3}) (\d{1,18})$`)

// UnmarshalText implements encoding.TextUnmarshaler. The role of a client can set any text, and thereby hide how full
// the volume is: another text than a percentage and a size in KiB gives the zero value.
func (v *VolumeUsage) UnmarshalText(text []byte) error {
	*v = VolumeUsage{}
	found := volumeText.FindSubmatch(text)
	if found == nil {
		return nil
	}
	percent, _ := strconv.ParseInt(string(found[1]), 10, 32)
	size, _ := strconv.ParseInt(string(found[2]), 10, 64)
	if percent <= 100 {
		*v = VolumeUsage{int32(percent), min(size, math.MaxInt64>>10) << 10}
	}
	return nil
}

// maxPending limits ServerSettings.PendingRestart.
const maxPending = 32

// maxReport limits Backup.Report, in bytes. PostgreSQL limits application_name.
const maxReport = 63

// settingsQuery reads the parameters that the script in the Pod of a Database sets.
const settingsQuery = `select json_build_object(
  'revision', left(coalesce(current_setting('windlass.revision', true), ''), 63),
  'problem', left(coalesce(current_setting('windlass.problem', true), ''), 1024),
  'volume', left(coalesce(current_setting('windlass.volume', true), ''), 63),
  'backup', json_build_object(
    'report', (select left(application_name, 63) from pg_stat_activity where usename = '` + BackupRole + `'
      and application_name like 'windlass 1 %' order by backend_start desc limit 1),
    'written', (pg_current_wal_flush_lsn() - '0/0')::bigint,
    'stored', (select (restart_lsn - '0/0')::bigint from pg_replication_slots
      where slot_name = '` + BackupRole + `' and active)),
  'pendingRestart', (select coalesce(json_agg(name), '[]')
    from (select name from pg_settings where pending_restart order by name limit 32) pending)
)`

// BackupRole is the role with which the backup of a Database replicates. The slot of the backup has the same name.
const BackupRole = "windlass_backup"

// Backup is what a server says about its backup. Positions are offsets in the write-ahead log, in bytes.
type Backup struct {
	// Report is what the Pod of the backup reports, in the form of backup.sh in package database. It is "" while the Pod
	// is not connected.
	Report string `json:"report"`
	// Written is the position up to which the server has written.
	Written int64 `json:"written"`
	// Stored is the position up to which the backup has stored the write-ahead log. It is nil while the backup does not
	// stream.
	Stored *int64 `json:"stored"`
}

// parameterName matches revisions and the names of parameters, including parameters of extensions.
var parameterName = regexp.MustCompile(`^[A-Za-z0-9_.]{0,63}$`)

// Settings logs in as the role in as, and reads the settings of the server. Its errors have a Class: LoginRejected if
// the server does not accept the password, and Unproven if it accepts the password, but the role cannot use the
// database now.
func (c *Connector) Settings(ctx context.Context, tenant string, as Settings) (seen ServerSettings, err error) {
	server := c.Open(tenant, as)
	defer server.Close()
	open, err := server.connect(ctx, as, LoginOwner, fmt.Sprintf("the owner %q", as.Username))
	switch {
	case acceptsPassword(err):
		return seen, NewError(Unproven, "%w", err)
	case err != nil:
		return seen, err
	}
	server.owner = open
	open.hears.hidden = []string{as.Password} // the owner and the database are in the spec
	if err := open.query(ctx, &seen, settingsQuery); err != nil {
		return ServerSettings{}, fmt.Errorf("querying the settings: %w", err)
	}
	seen.Problem = open.hears.words(seen.Problem)
	if encrypted, ok := open.conn.Conn().(*tls.Conn); ok {
		seen.Certificate = encrypted.ConnectionState().PeerCertificates[0].Raw
	}
	return seen, nil
}

// plausible implements result.
func (s ServerSettings) plausible() bool {
	for _, name := range s.PendingRestart {
		if name == "" || !parameterName.MatchString(name) {
			return false
		}
	}
	return len(s.PendingRestart) <= maxPending && len(s.Backup.Report) <= maxReport &&
		parameterName.MatchString(s.Revision)
}
