package postgresql

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// AllowedHosts decides which servers the operator may connect to. The zero value allows every address except
// special addresses (see isSpecial) and API servers.
type AllowedHosts struct {
	patterns []string
	prefixes []netip.Prefix
	// ordinary turns isSpecial off. Tests set it, because their servers listen on loopback.
	ordinary bool
}

// ParseAllowedHosts parses entries, which are host names (* matches any characters), addresses, or networks
// in CIDR notation. Without entries it returns the zero value.
func ParseAllowedHosts(entries []string) (AllowedHosts, error) {
	var hosts AllowedHosts
	for _, entry := range entries {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			hosts.prefixes = append(hosts.prefixes, prefix.Masked())
		} else if address, err := netip.ParseAddr(entry); err == nil {
			hosts.prefixes = append(hosts.prefixes, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		} else if _, err := path.Match(entry, ""); err != nil || entry == "" || strings.Contains(entry, "/") {
			return AllowedHosts{}, fmt.Errorf("%q is not a host name such as *.db.example.com, an IP address, or a network such as 10.0.0.0/8", entry)
		} else {
			hosts.patterns = append(hosts.patterns, entry)
		}
	}
	return hosts, nil
}

// verdict is the decision on a connection.
type verdict int

const (
	forbidden verdict = iota
	// unlisted allows a connection, because the list is empty. Messages do not reveal what answers at the
	// address, unless a PostgreSQL server answers.
	unlisted
	// listed allows a connection, because the administrator of the operator listed the host or the address.
	listed
)

// judge decides on a connection to an address of a host. An entry with a * allows no special address and no
// address of an API server, because the owner of a matching name decides to which address the name
// resolves. Only an entry with the exact address allows the port of an API server.
func (a AllowedHosts) judge(host string, to netip.AddrPort, apiServers []netip.AddrPort) verdict {
	address := to.Addr().Unmap().WithZone("")
	alone, within := a.address(address)
	named, literally := a.name(host)
	isAPIServer := func(anyPort bool) bool {
		return slices.ContainsFunc(apiServers, func(api netip.AddrPort) bool {
			return slices.Contains(meanings(address), api.Addr().Unmap()) && (anyPort || api.Port() == to.Port())
		})
	}
	switch {
	case alone:
		return listed
	case isAPIServer(false):
		return forbidden
	case within, literally:
		return listed
	case isAPIServer(true), !a.ordinary && slices.ContainsFunc(meanings(address), isSpecial):
		return forbidden
	case named:
		return listed
	case len(a.patterns) == 0 && len(a.prefixes) == 0:
		return unlisted
	}
	return forbidden
}

// name reports whether an entry matches the name of a host, and whether an entry is exactly this name.
func (a AllowedHosts) name(host string) (named, literally bool) {
	if _, err := netip.ParseAddr(host); err == nil {
		return false, false // an address is not a name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, pattern := range a.patterns {
		matched, err := path.Match(pattern, host)
		named = named || matched && err == nil
		literally = literally || pattern == host
	}
	return named, literally
}

// address reports whether an entry is exactly this address, and whether an entry contains it.
func (a AllowedHosts) address(address netip.Addr) (alone, within bool) {
	for _, prefix := range a.prefixes {
		if prefix.Contains(address) {
			alone, within = alone || prefix.IsSingleIP(), true
		}
	}
	return alone, within
}

// special lists networks in which users have no databases: loopback, link-local, multicast, unspecified and
// reserved addresses, and the addresses at which cloud providers serve metadata.
var special = func() (prefixes []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/3",
		"::/127", "fe80::/10", "ff00::/8",
		"100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::/32", "fd20:ce::254/128",
	} {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	return prefixes
}()

// isSpecial reports whether a connection to an address needs an entry with the address, with its network, or
// with the exact name of the host.
func isSpecial(address netip.Addr) bool {
	return slices.ContainsFunc(special, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// embeddings maps each IPv6 network whose addresses contain an IPv4 address to the offset of the IPv4 address, in
// bytes. The networks are NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056), and the obsolete IPv4-compatible addresses.
var embeddings = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"):   12,
	netip.MustParsePrefix("64:ff9b:1::/48"): 12,
	netip.MustParsePrefix("2002::/16"):      2,
	netip.MustParsePrefix("::/96"):          12,
}

// meanings returns an address and the IPv4 address that it contains, if any.
func meanings(address netip.Addr) []netip.Addr {
	all := []netip.Addr{address}
	for network, at := range embeddings {
		if bytes := address.As16(); address.Is6() && network.Contains(address) {
			all = append(all, netip.AddrFrom4([4]byte(bytes[at:at+4])))
		}
	}
	return all
}
