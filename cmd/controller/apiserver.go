package main

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

// lookupTimeout limits the lookups of the addresses of the API server.
const lookupTimeout = 5 * time.Second

// apiServers returns the addresses of the API server: the addresses in config, and the address of the Service
// in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. It resolves a host name once. If that fails, it
// logs the error and continues, since the clients may use a proxy.
func apiServers(ctx context.Context, config *rest.Config, env func(string) string) ([]netip.AddrPort, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's URL: %w", err)
	}
	port := server.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[server.Scheme]
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var all []netip.AddrPort
	for _, at := range [][2]string{{server.Hostname(), port}, {env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")}} {
		number, err := strconv.ParseUint(at[1], 10, 16)
		if err != nil {
			continue // not in a Pod
		}
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", at[0])
		if err != nil {
			klog.FromContext(ctx).Error(err, "ExternalDatabases can lead to the API server: its addresses are not known", "host", at[0])
		}
		for _, address := range addresses {
			all = append(all, netip.AddrPortFrom(address.Unmap(), uint16(number)))
		}
	}
	return all, nil
}
