package faults

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"windlass.dev/windlass/pkg/postgresql"
)

// podConnector connects a process to the servers in Pods. It implements database.Connector.
type podConnector struct{ process *process }

// Settings implements database.Connector.
func (c podConnector) Settings(_ context.Context, _ string, as postgresql.Settings) (postgresql.ServerSettings, error) {
	p, r := c.process, c.process.run
	lost := postgresql.NewError(postgresql.Silent, "the connection was lost")
	if p.isDead() || p.suspended.Load() {
		return postgresql.ServerSettings{}, lost
	}
	r.countRequest()
	name := podLoginPrefix + statementName(as.Username)
	id := r.recordID(name, p, true)
	seen, err := r.servers.login(as)
	r.log("sq", nil, id+" "+name, err, nil)
	if r.isRecording(true) && r.injector.isSecondDeath(p) {
		p.die()
		return postgresql.ServerSettings{}, lost
	}
	if !r.injector.reaches(id) {
		return seen, err
	}
	r.log("!!", nil, r.plan.String(), nil, nil)
	if fault := r.plan.fault; fault == diesBefore || fault == diesAfter {
		p.die()
	}
	return postgresql.ServerSettings{}, lost
}

// fill returns a step after which the volume has so much data. It also changes the Database: after the fault clock-1h,
// the periodic reading of the volume comes an hour late, because the clock of the bubble has no monotonic time.
func fill(size string) step {
	data := apiresource.MustParse(size)
	return func(u *user) {
		servers := u.run.servers
		servers.mu.Lock()
		servers.used = data.Value()
		servers.mu.Unlock()
		u.patch(windlass, "databases", "shop", map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{"example.com/data": size}},
		})
	}
}

// backup returns what a server says about a backup that has stored everything.
func (s *podServer) backup() postgresql.Backup {
	if !s.replicates {
		return postgresql.Backup{}
	}
	position := int64(1)
	return postgresql.Backup{
		Report: "windlass 1 1790000000 1790000000 1 0 first -", Written: position, Stored: &position,
	}
}

// usage returns how full the volume is, as the script in a real Pod does.
func (s *podServers) usage() postgresql.VolumeUsage {
	var claim corev1.PersistentVolumeClaim
	o := s.run.find("persistentvolumeclaims", s.run.namespace, "shop")
	if o == nil || json.Unmarshal(o.raw, &claim) != nil {
		return postgresql.VolumeUsage{}
	}
	seen := postgresql.VolumeUsage{Bytes: claim.Status.Capacity.Storage().Value()}
	for _, threshold := range []int64{80, 90, 95, 100} {
		if s.used*100 >= seen.Bytes*threshold {
			seen.Percent = int32(threshold)
		}
	}
	return seen
}

// login logs in to the server at an address, and returns its settings.
func (s *podServers) login(as postgresql.Settings) (postgresql.ServerSettings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, server := range s.running() {
		if server.address != as.Host {
			continue
		}
		if !server.accepts(as.Username, as.Password) {
			return postgresql.ServerSettings{},
				postgresql.NewError(postgresql.LoginRejected, "the server rejects the login %q", as.Username)
		}
		return postgresql.ServerSettings{Revision: server.revision, Volume: s.usage(), Backup: server.backup()}, nil
	}
	return postgresql.ServerSettings{}, postgresql.NewError(postgresql.Silent, "no server responds at %s", as.Host)
}
