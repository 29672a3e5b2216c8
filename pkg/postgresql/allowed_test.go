package postgresql

import (
	"net/netip"
	"testing"
)

func TestAllowedHostsDecideOnAddresses(t *testing.T) {
	api := []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("127.0.0.1:6443")}
	own := []netip.Addr{netip.MustParseAddr("10.7.0.9"), netip.MustParseAddr("2001:db8::9")}
	for name, c := range map[string]struct {
		allowed  []string
		host, to string
		want     bool
	}{
		"a database anywhere":             {nil, "db.example.com", "192.0.2.7:5432", true},
		"a database in a private network": {nil, "db.shop", "10.1.2.3:5432", true},
		"a database by IPv6":              {nil, "db", "[2001:db8::1]:5432", true},
		"loopback":                        {nil, "localhost", "127.0.0.1:5432", false},
		"all of loopback":                 {nil, "127.8.9.1", "127.8.9.1:5432", false},
		"loopback of IPv6":                {nil, "localhost", "[::1]:5432", false},
		"no address":                      {nil, "0.0.0.0", "0.0.0.0:5432", false},
		"no address of IPv6":              {nil, "::", "[::]:5432", false},
		"the metadata service":            {nil, "a.example.com", "169.254.169.254:80", false},
		"the metadata service by IPv6":    {nil, "a.example.com", "[fd00:ec2::254]:80", false},
		"link-local":                      {nil, "fe80::1", "[fe80::1]:5432", false},
		"link-local with a zone":          {nil, "fe80::1", "[fe80::1%eth0]:5432", false},
		"multicast":                       {nil, "a", "224.0.0.1:5432", false},
		"multicast of IPv6":               {nil, "a", "[ff02::1]:5432", false},
		"broadcast":                       {nil, "a", "255.255.255.255:5432", false},
		"loopback in IPv6":                {nil, "a", "[::ffff:127.0.0.1]:5432", false},
		"loopback, compatible with IPv4":  {nil, "a", "[::127.0.0.1]:5432", false},
		"metadata by NAT64":               {nil, "a", "[64:ff9b::a9fe:a9fe]:80", false},
		"metadata by NAT64 of one's own":  {nil, "a", "[64:ff9b:1::a9fe:a9fe]:80", false},
		"metadata by 6to4":                {nil, "a", "[2002:a9fe:a9fe::1]:80", false},
		"a database by NAT64":             {nil, "a", "[64:ff9b::c000:207]:5432", true},
		"the operator itself":             {nil, "a", "10.7.0.9:8080", false},
		"the operator itself by IPv6":     {nil, "a", "[2001:db8::9]:8080", false},
		"the operator itself by NAT64":    {nil, "a", "[64:ff9b::a07:9]:8080", false},
		"the API server":                  {nil, "kubernetes.default", "10.96.0.1:443", false},
		"the API server's other ports":    {nil, "kubernetes.default", "10.96.0.1:2379", false},
		"the API server in IPv6":          {nil, "a", "[::ffff:10.96.0.1]:443", false},
		"the API server by NAT64":         {nil, "a", "[64:ff9b::a60:1]:443", false},
		"what is not listed": {
			[]string{"10.0.0.0/8", "*.example.com"}, "db.example.org", "192.0.2.7:5432", false,
		},
		"a network":                          {[]string{"10.0.0.0/8"}, "db", "10.1.2.3:5432", true},
		"a name":                             {[]string{"db.example.com"}, "DB.example.com.", "192.0.2.7:5432", true},
		"a pattern":                          {[]string{"*.example.com"}, "db.example.com", "192.0.2.7:5432", true},
		"a name that is on this machine":     {[]string{"localhost"}, "localhost", "127.0.0.1:5432", true},
		"a pattern, not for loopback":        {[]string{"*"}, "a.example.com", "127.0.0.1:5432", false},
		"a pattern, not for metadata":        {[]string{"*.example.com"}, "a.example.com", "169.254.169.254:80", false},
		"loopback that is listed":            {[]string{"127.0.0.0/8"}, "localhost", "127.0.0.1:5432", true},
		"the operator itself that is listed": {[]string{"10.7.0.9"}, "a", "10.7.0.9:5432", true},
		"a pattern, not for the operator":    {[]string{"*"}, "a", "10.7.0.9:5432", false},
		"the API server in a listed network": {[]string{"10.0.0.0/8"}, "a", "10.96.0.1:443", false},
		"another port in a listed network":   {[]string{"127.0.0.0/8"}, "a", "127.0.0.1:5432", true},
		"the API server's port there":        {[]string{"127.0.0.0/8"}, "a", "127.0.0.1:6443", false},
		"the API server by its name": {
			[]string{"kubernetes.default"}, "kubernetes.default", "10.96.0.1:443", false,
		},
		"the API server by its address":        {[]string{"10.96.0.1"}, "kubernetes.default", "10.96.0.1:443", true},
		"a name that looks like an address":    {[]string{"10.0.0.5"}, "10.0.0.5.", "169.254.169.254:80", false},
		"an address in the guise of a pattern": {[]string{"*"}, "192.0.2.7", "192.0.2.7:5432", false},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := ParseAllowedHosts(c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if _, got := allowed.allows(c.host, netip.MustParseAddrPort(c.to), api, own); got != c.want {
				t.Errorf("it is allowed: %t", got)
			}
		})
	}
}

func TestEntryOfServerIsItsLabel(t *testing.T) {
	hosts, err := ParseAllowedHosts([]string{
		"*.example.com", "db.example.com", "10.0.0.0/8", "10.1.2.3", "192.0.2.7/32", "fd00::/8",
	})
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
			if got, _ := hosts.match(c.host, address); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
