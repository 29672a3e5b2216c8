package operator

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// lookupTimeout limits the time for all lookups of the addresses of the API server.
const lookupTimeout = 5 * time.Second

// APIServers returns the addresses of the API server: the addresses of the host in config, and the address of
// the Service in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. If the lookup of a host fails, APIServers
// logs the error and omits the host, since the clients may use a proxy.
func APIServers(ctx context.Context, config *rest.Config, env func(string) string) ([]netip.AddrPort, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("determining the URL of the API server: %w", err)
	}
	port := server.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[server.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var all []netip.AddrPort
	for _, at := range [][2]string{
		{server.Hostname(), port}, {env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")},
	} {
		number, err := strconv.ParseUint(at[1], 10, 16)
		if err != nil {
			continue // the variables are not set outside of a Pod
		}
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", at[0])
		if err != nil {
			klog.FromContext(ctx).Error(err, "Failed to look up the API server. Connections of ExternalDatabases to its "+
				"addresses are not blocked", "host", at[0])
		}
		for _, address := range addresses {
			all = append(all, netip.AddrPortFrom(address.Unmap(), uint16(number)))
		}
	}
	return all, nil
}

// OwnAddresses returns the addresses of the network interfaces of this machine or, in a Pod, of the Pod. If it cannot
// read them, it logs the error.
func OwnAddresses(ctx context.Context) (all []netip.Addr) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the addresses of this machine failed; connections of ExternalDatabases "+
			"to them are not blocked")
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil { // always
			all = append(all, prefix.Addr().Unmap())
		}
	}
	return all
}
