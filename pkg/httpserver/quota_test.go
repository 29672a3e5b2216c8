package httpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestQuotaLimitsTotalAndEachAddress(t *testing.T) {
	const total, perAddress = 3, 2
	tests := []struct {
		name  string
		inUse []string
		next  string
		want  bool
	}{
		{"nothing is in use", nil, "192.0.2.1:1", true},
		{"the address has room for one more", []string{"192.0.2.1:1"}, "192.0.2.1:2", true},
		{"the address uses its part", []string{"192.0.2.1:1", "192.0.2.1:2"}, "192.0.2.1:3", false},
		{"only another address uses its part", []string{"192.0.2.1:1", "192.0.2.1:2"}, "192.0.2.2:1", true},
		{"everything is in use", []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"}, "192.0.2.3:1", false},
		{"an IPv4 address in IPv6 form is the same address",
			[]string{"192.0.2.1:1", "192.0.2.1:2"}, "[::ffff:192.0.2.1]:3", false},
		{"an IPv6 address has its own part", []string{"[2001:db8::1]:1", "[2001:db8::1]:2"}, "[2001:db8::2]:1", true},
		{"an IPv6 address with a zone is the same address",
			[]string{"[fe80::1%eth0]:1", "[fe80::1%eth0]:2"}, "[fe80::1]:3", false},
		{"clients without an IP address count as one", []string{"@", "pipe"}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewQuota(total, perAddress)
			var last func()
			for _, client := range tt.inUse {
				giveBack, ok := q.Take(client)
				if !ok {
					t.Fatalf("%s gets nothing", client)
				}
				last = giveBack
			}
			if _, ok := q.Take(tt.next); ok != tt.want {
				t.Errorf("Take(%q) = %t, want %t", tt.next, ok, tt.want)
			}
			if tt.want {
				return
			}
			last()
			last() // has no effect
			if _, ok := q.Take(tt.inUse[len(tt.inUse)-1]); !ok {
				t.Error("what was given back cannot be taken again")
			}
			if _, ok := q.Take(tt.inUse[len(tt.inUse)-1]); ok {
				t.Error("what was given back once can be taken twice")
			}
		})
	}
}

func TestLimitRejectsRequestsBeyondQuota(t *testing.T) {
	q := NewQuota(2, 1)
	var inner *httptest.ResponseRecorder
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	var handler http.Handler
	handler = q.Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		inner = httptest.NewRecorder()
		handler.ServeHTTP(inner, request) // while the first request is in flight
	}))
	for range 2 { // the second time shows that the first request gave its unit back
		outer := httptest.NewRecorder()
		handler.ServeHTTP(outer, request)
		if outer.Code != http.StatusOK {
			t.Errorf("the first request gets status %d", outer.Code)
		}
		if inner.Code != http.StatusTooManyRequests || inner.Header().Get("Retry-After") == "" {
			t.Errorf("the second request gets status %d, Retry-After %q", inner.Code, inner.Header().Get("Retry-After"))
		}
	}
	if len(q.used) > 0 || q.sum != 0 {
		t.Errorf("after the requests, %d units are in use by %d addresses", q.sum, len(q.used))
	}
}
