package operator

import (
	"net/netip"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
)

func TestAPIServers(t *testing.T) {
	for name, c := range map[string]struct {
		host string
		env  map[string]string
		want []string
	}{
		"a URL":              {host: "https://10.0.0.1:6443/prefix", want: []string{"10.0.0.1:6443"}},
		"a URL without port": {host: "https://10.0.0.1", want: []string{"10.0.0.1:443"}},
		"IPv6":               {host: "https://[2001:db8::1]:6443", want: []string{"[2001:db8::1]:6443"}},
		"a host and port":    {host: "10.0.0.1:8080", want: []string{"10.0.0.1:8080"}},
		"a Pod": {
			host: "https://10.96.0.1:443", env: map[string]string{
				"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
			}, want: []string{"10.96.0.1:443", "10.96.0.1:443"},
		},
		"a kubeconfig in a Pod": {
			host: "https://10.0.0.1:6443", env: map[string]string{
				"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443",
			},
			want: []string{"10.0.0.1:6443", "10.96.0.1:443"},
		},
		"a name that is none": {host: "https://no-such-host.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := APIServers(t.Context(), &rest.Config{Host: c.host}, func(key string) string { return c.env[key] })
			if err != nil {
				t.Fatal(err)
			}
			var want []netip.AddrPort
			for _, at := range c.want {
				want = append(want, netip.MustParseAddrPort(at))
			}
			if !slices.Equal(got, want) {
				t.Errorf("wanted %v, got %v", want, got)
			}
		})
	}
	if _, err := APIServers(t.Context(), &rest.Config{Host: "https://%zz"}, func(string) string {
		return ""
	}); err == nil {
		t.Error("a URL that is none is read")
	}
}

func TestOwnAddressesHaveLoopback(t *testing.T) {
	if own := OwnAddresses(t.Context()); !slices.Contains(own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("the own addresses are %v", own)
	}
}
