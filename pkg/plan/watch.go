package plan

import (
	"context"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// watch answers with the planned changes since a list. The watch does not end, and does not send the changes that other
// clients make.
func (s *Server) watch(q *request) (*answer, error) {
	query := q.URL.Query()
	if query.Get("sendInitialEvents") == "true" {
		// Reflectors then list, as with API servers without streaming lists.
		return refuse(apierrors.NewInvalid(q.kind(), "", field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "a plan lists objects"),
		})), nil
	}
	chosen, err := q.selection()
	if err != nil {
		return refuse(apierrors.NewBadRequest(err.Error())), nil
	}
	body, w := io.Pipe()
	go s.stream(q.Context(), w, chosen, query.Get("resourceVersion"))
	return &answer{code: http.StatusOK, stream: body}, nil
}

// stream writes the events of all changes after a version, until ctx ends.
func (s *Server) stream(ctx context.Context, w *io.PipeWriter, chosen selection, version string) {
	defer broadcastAfter(ctx, s.grown)()
	next := 0
	for {
		c, ok := s.nextChange(ctx, &next)
		if !ok {
			_ = w.CloseWithError(ctx.Err())
			return
		}
		if !isLater(c.version, version) {
			continue
		}
		event, ok, err := chosen.event(c)
		if err == nil && ok {
			_, err = w.Write(append(event, '\n'))
		}
		if err != nil {
			_ = w.CloseWithError(err)
			return
		}
	}
}

// broadcastAfter wakes the goroutines that wait for a condition when ctx ends, until stop is called.
func broadcastAfter(ctx context.Context, of *sync.Cond) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		of.L.Lock()
		defer of.L.Unlock()
		of.Broadcast()
	})
}

// nextChange waits for the change with the index next, and increments next. ok is false if ctx ends first.
func (s *Server) nextChange(ctx context.Context, next *int) (c change, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.changes) <= *next {
		if ctx.Err() != nil {
			return c, false
		}
		s.grown.Wait()
	}
	*next++
	return s.changes[*next-1], ctx.Err() == nil
}

// isLater reports whether version a, of a Server, is later than version b. A longer number is larger.
func isLater(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}

// lastEvent returns the version of the last change from the index on that a watch of a list gets, or "".
func (s *Server) lastEvent(list string, from int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen, ok := s.lists[list]
	if !ok {
		return ""
	}
	for i := len(s.changes) - 1; i >= from; i-- {
		c := s.changes[i]
		if c.of.resource == chosen.resource && (chosen.has(c.before) || chosen.has(c.after)) {
			return c.version
		}
	}
	return ""
}

// size returns the number of changes.
func (s *Server) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.changes)
}

// failure waits until a list has failed, and returns its error. It returns nil when ctx ends.
func (s *Server) failure(ctx context.Context) error {
	defer broadcastAfter(ctx, s.grown)()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.failed == nil && ctx.Err() == nil {
		s.grown.Wait()
	}
	return s.failed
}
