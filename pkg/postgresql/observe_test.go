package postgresql

import (
	"net/netip"
	"testing"
)

func TestEntryOfServerIsItsLabel(t *testing.T) {
	hosts, err := ParseAllowedHosts([]string{"*.example.com", "db.example.com", "10.0.0.0/8", "10.1.2.3", "192.0.2.7/32", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ host, address, want string }{
		"an exact name and an exact address":     {"DB.example.com.", "10.1.2.3", "10.1.2.3"},
		"an exact name in a network":             {"db.example.com", "10.9.9.9", "db.example.com"},
		"an exact name before its lookup":        {"db.example.com", "", "db.example.com"},
		"a name that matches a pattern":          {"shop.example.com", "", "*.example.com"},
		"a name whose address is in a network":   {"shop.internal", "10.9.9.9", "10.0.0.0/8"},
		"an exact address":                       {"10.1.2.3", "", "10.1.2.3"},
		"an exact address, listed as a network":  {"192.0.2.7", "", "192.0.2.7"},
		"an address in a network":                {"fd00::1", "", "fd00::/8"},
		"an IPv4 address as an IPv6 address":     {"::ffff:10.1.2.3", "", "10.1.2.3"},
		"a name that no entry matches":           {"secret.internal", "203.0.113.1", "unlisted"},
		"a name that no entry matches, unlooked": {"secret.internal", "", "unlisted"},
	} {
		t.Run(name, func(t *testing.T) {
			address := netip.Addr{}
			if c.address != "" {
				address = netip.MustParseAddr(c.address)
			}
			if got := hosts.entry(c.host, address); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
