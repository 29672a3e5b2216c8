package postgresql

import (
	"fmt"
	"net/netip"
	"path"
	"strings"
)

// AllowedHosts are where connections may go. The zero value allows all.
type AllowedHosts struct {
	patterns []string
	prefixes []netip.Prefix
}

// ParseAllowedHosts reads names, in which * stands for any characters, addresses, and
// networks in CIDR notation. None allows all.
func ParseAllowedHosts(entries []string) (AllowedHosts, error) {
	var hosts AllowedHosts
	for _, entry := range entries {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			hosts.prefixes = append(hosts.prefixes, prefix.Masked())
		} else if address, err := netip.ParseAddr(entry); err == nil {
			hosts.prefixes = append(hosts.prefixes, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		} else if _, err := path.Match(entry, ""); err != nil || entry == "" || strings.Contains(entry, "/") {
			return AllowedHosts{}, fmt.Errorf("%q is neither a name, such as *.db.example.com, nor an address, nor a network, such as 10.0.0.0/8", entry)
		} else {
			hosts.patterns = append(hosts.patterns, entry)
		}
	}
	return hosts, nil
}

// name tells whether a host may be connected to whatever its addresses are.
func (a AllowedHosts) name(host string) bool {
	if len(a.patterns) == 0 && len(a.prefixes) == 0 {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false // an address is none of the names
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, pattern := range a.patterns {
		if matched, err := path.Match(pattern, host); err == nil && matched {
			return true
		}
	}
	return false
}

// address tells whether an address may be connected to whatever its name is.
func (a AllowedHosts) address(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, prefix := range a.prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
