package plan

import (
	"context"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watch responds with the planned changes since a list. The watch does not end, and does not send the changes that
// other clients make.
func (s *Server) watch(q *request) (*http.Response, error) {
	query := q.URL.Query()
	if query.Get("sendInitialEvents") == "true" {
		// After this error, reflectors list, as with API servers without streaming lists.
		return nil, apierrors.NewBadRequest("a plan does not support lists that are streamed as events of a watch")
	}
	chosen, err := q.selection()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	since, err := strconv.ParseInt(query.Get("resourceVersion"), 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest("a watch in a plan follows a list")
	}
	body, w := io.Pipe()
	go func() { _ = w.CloseWithError(s.send(q.Context(), w, chosen, since)) }()
	return q.stream(http.StatusOK, body), nil
}

// send writes the events of all changes after a version, until ctx ends.
func (s *Server) send(ctx context.Context, w io.Writer, chosen selection, since int64) error {
	for sent := 0; ; {
		changes, grown := s.log()
		for _, c := range changes[sent:] {
			event := chosen.eventOf(c)
			if event == "" || c.version <= since {
				continue
			}
			encoded, err := chosen.encode(event, c)
			if err != nil {
				return err
			}
			if _, err := w.Write(append(encoded, '\n')); err != nil {
				return err
			}
		}
		sent = len(changes)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-grown:
		}
	}
}

// log returns all changes, and a channel that is closed when there are more.
func (s *Server) log() (changes []change, grown <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes, s.grown
}

// lastEvent returns the resource version of the last of the given changes that a watch after a list gets. It returns 0
// if the watch gets none.
func (s *Server) lastEvent(list string, changes []change) (version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen, ok := s.lists[list]
	if !ok {
		return 0
	}
	for _, c := range changes {
		if chosen.eventOf(c) != "" {
			version = c.version
		}
	}
	return version
}
