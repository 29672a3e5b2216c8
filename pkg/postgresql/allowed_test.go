package postgresql

import (
	"net/netip"
	"testing"
)

func TestJudge(t *testing.T) {
	api := []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("127.0.0.1:6443")}
	for name, c := range map[string]struct {
		allowed  []string
		host, to string
		want     verdict
	}{
		"a database anywhere":                  {nil, "db.example.com", "192.0.2.7:5432", unlisted},
		"a database in a private network":      {nil, "db.shop", "10.1.2.3:5432", unlisted},
		"a database by IPv6":                   {nil, "db", "[2001:db8::1]:5432", unlisted},
		"loopback":                             {nil, "localhost", "127.0.0.1:5432", forbidden},
		"all of loopback":                      {nil, "127.8.9.1", "127.8.9.1:5432", forbidden},
		"loopback of IPv6":                     {nil, "localhost", "[::1]:5432", forbidden},
		"no address":                           {nil, "0.0.0.0", "0.0.0.0:5432", forbidden},
		"no address of IPv6":                   {nil, "::", "[::]:5432", forbidden},
		"the metadata service":                 {nil, "a.example.com", "169.254.169.254:80", forbidden},
		"the metadata service by IPv6":         {nil, "a.example.com", "[fd00:ec2::254]:80", forbidden},
		"link-local":                           {nil, "fe80::1", "[fe80::1]:5432", forbidden},
		"link-local with a zone":               {nil, "fe80::1", "[fe80::1%eth0]:5432", forbidden},
		"multicast":                            {nil, "a", "224.0.0.1:5432", forbidden},
		"multicast of IPv6":                    {nil, "a", "[ff02::1]:5432", forbidden},
		"broadcast":                            {nil, "a", "255.255.255.255:5432", forbidden},
		"loopback in IPv6":                     {nil, "a", "[::ffff:127.0.0.1]:5432", forbidden},
		"loopback, compatible with IPv4":       {nil, "a", "[::127.0.0.1]:5432", forbidden},
		"metadata by NAT64":                    {nil, "a", "[64:ff9b::a9fe:a9fe]:80", forbidden},
		"metadata by NAT64 of one's own":       {nil, "a", "[64:ff9b:1::a9fe:a9fe]:80", forbidden},
		"metadata by 6to4":                     {nil, "a", "[2002:a9fe:a9fe::1]:80", forbidden},
		"a database by NAT64":                  {nil, "a", "[64:ff9b::c000:207]:5432", unlisted},
		"the API server":                       {nil, "kubernetes.default", "10.96.0.1:443", forbidden},
		"the API server's other ports":         {nil, "kubernetes.default", "10.96.0.1:2379", forbidden},
		"the API server in IPv6":               {nil, "a", "[::ffff:10.96.0.1]:443", forbidden},
		"the API server by NAT64":              {nil, "a", "[64:ff9b::a60:1]:443", forbidden},
		"what is not listed":                   {[]string{"10.0.0.0/8", "*.example.com"}, "db.example.org", "192.0.2.7:5432", forbidden},
		"a network":                            {[]string{"10.0.0.0/8"}, "db", "10.1.2.3:5432", listed},
		"a name":                               {[]string{"db.example.com"}, "DB.example.com.", "192.0.2.7:5432", listed},
		"a pattern":                            {[]string{"*.example.com"}, "db.example.com", "192.0.2.7:5432", listed},
		"a name that is on this machine":       {[]string{"localhost"}, "localhost", "127.0.0.1:5432", listed},
		"a pattern, not for loopback":          {[]string{"*"}, "a.example.com", "127.0.0.1:5432", forbidden},
		"a pattern, not for metadata":          {[]string{"*.example.com"}, "a.example.com", "169.254.169.254:80", forbidden},
		"loopback that is listed":              {[]string{"127.0.0.0/8"}, "localhost", "127.0.0.1:5432", listed},
		"the API server in a listed network":   {[]string{"10.0.0.0/8"}, "a", "10.96.0.1:443", forbidden},
		"another port in a listed network":     {[]string{"127.0.0.0/8"}, "a", "127.0.0.1:5432", listed},
		"the API server's port there":          {[]string{"127.0.0.0/8"}, "a", "127.0.0.1:6443", forbidden},
		"the API server by its name":           {[]string{"kubernetes.default"}, "kubernetes.default", "10.96.0.1:443", forbidden},
		"the API server by its address":        {[]string{"10.96.0.1"}, "kubernetes.default", "10.96.0.1:443", listed},
		"an address in the guise of a pattern": {[]string{"*"}, "192.0.2.7", "192.0.2.7:5432", forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, err := ParseAllowedHosts(c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if got := allowed.judge(c.host, netip.MustParseAddrPort(c.to), api); got != c.want {
				t.Errorf("it is %d, and not %d", got, c.want)
			}
		})
	}
}
