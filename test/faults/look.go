package faults

import (
	"context"

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
		return postgresql.ServerSettings{Revision: server.revision}, nil
	}
	return postgresql.ServerSettings{}, postgresql.NewError(postgresql.Silent, "no server responds at %s", as.Host)
}
