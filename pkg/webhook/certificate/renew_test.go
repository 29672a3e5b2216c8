package certificate

import (
	"crypto/x509"
	"testing"
	"time"
)

// TestRecentCAsAreLimited has the CAs of a Secret that somebody has deleted 20 times.
func TestRecentCAsAreLimited(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var c content
	for range 20 {
		ca, err := newAuthority(now, 365*day)
		if err != nil {
			t.Fatal(err)
		}
		if c.signer == nil {
			c.signer = ca
		}
		c.bundle = append(c.bundle, ca.Leaf)
		if c.serving, err = issue(ca, []string{"example.com"}, now, 365*day); err != nil { // by the oldest CA, in the end
			t.Fatal(err)
		}
	}
	last := c.bundle[19]
	for name, tt := range map[string]struct {
		now  time.Time
		want []*x509.Certificate
	}{
		"at first":          {now, append(c.bundle[:1+maxRecent:1+maxRecent], last)},
		"after the overlap": {now.Add(overlap), []*x509.Certificate{c.signer.Leaf, last}},
	} {
		t.Run(name, func(t *testing.T) {
			got := needed(c, tt.now)
			if len(got) != len(tt.want) {
				t.Fatalf("%d CAs are trusted, want %d", len(got), len(tt.want))
			}
			for i, ca := range got {
				if !ca.Equal(tt.want[i]) {
					t.Errorf("the CA at place %d is another one", i)
				}
			}
		})
	}
}
