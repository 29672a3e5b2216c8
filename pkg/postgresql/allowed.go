package postgresql

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// AllowedHosts decides which servers the operator may connect to. The zero value allows every address except
// special addresses (see isSpecial), the operator's own addresses and API servers.
type AllowedHosts struct {
	patterns []string
	prefixes []netip.Prefix
	// ordinary disables the check with isSpecial. Tests set ordinary, because their servers listen on loopback.
	ordinary bool
}

// ParseAllowedHosts parses entries, which are host names (* matches any characters), addresses, or networks in CIDR
// notation. Without entries, it returns the zero value. It returns an error for an entry of another form.
func ParseAllowedHosts(entries []string) (AllowedHosts, error) {
	var hosts AllowedHosts
	for _, entry := range entries {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			hosts.prefixes = append(hosts.prefixes, prefix.Masked())
		} else if address, err := netip.ParseAddr(entry); err == nil {
			hosts.prefixes = append(hosts.prefixes, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		} else if _, err := path.Match(entry, ""); err != nil || entry == "" || strings.Contains(entry, "/") {
			return AllowedHosts{},
				fmt.Errorf("%q is not a host name such as *.db.example.com, an IP address, or a network such as 10.0.0.0/8", entry)
		} else {
			hosts.patterns = append(hosts.patterns, entry)
		}
	}
	return hosts, nil
}

// match says how exactly an entry of AllowedHosts names a server.
type match int

const (
	none    match = iota
	pattern       // a name with a *
	exact         // the name of the host, or a network with the address
	single        // the address
)

// match returns the entry that matches a server most exactly, or UnlistedServer. address is the zero Addr if it is not
// known.
func (a AllowedHosts) match(host string, address netip.Addr) (entry string, best match) {
	entry, host = UnlistedServer, strings.TrimSuffix(strings.ToLower(host), ".")
	found := func(text string, as match) {
		if as > best {
			entry, best = text, as
		}
	}
	literal, err := netip.ParseAddr(host) // err is nil if host is an address, and then no name matches
	if !address.IsValid() {
		address = literal
	}
	address = address.Unmap().WithZone("")
	for _, name := range a.patterns {
		if matched, _ := path.Match(name, host); err != nil && name == host {
			found(name, exact)
		} else if err != nil && matched {
			found(name, pattern)
		}
	}
	for _, prefix := range a.prefixes {
		switch {
		case !prefix.Contains(address):
		case prefix.IsSingleIP():
			found(prefix.Addr().String(), single)
		default:
			found(prefix.String(), exact)
		}
	}
	return entry, best
}

// allows reports whether the operator may connect to an address of a host, and returns the entry that matches. An entry
// with a * allows no special address, no own address and no address of an API server, because a user can make a
// matching name resolve to any address. Only an entry with the exact address allows the port of an API server.
func (a AllowedHosts) allows(
	host string, to netip.AddrPort, apiServers []netip.AddrPort, own []netip.Addr,
) (entry string, allowed bool) {
	address := to.Addr().Unmap().WithZone("")
	entry, as := a.match(host, address)
	isAPIServer := func(anyPort bool) bool {
		return slices.ContainsFunc(apiServers, func(api netip.AddrPort) bool {
			return slices.Contains(meanings(address), api.Addr().Unmap()) && (anyPort || api.Port() == to.Port())
		})
	}
	isOwn := func(meaning netip.Addr) bool { return slices.Contains(own, meaning) }
	switch {
	case as == single:
		return entry, true
	case isAPIServer(false):
		return entry, false
	case as == exact:
		return entry, true
	case isAPIServer(true), slices.ContainsFunc(meanings(address), isOwn),
		!a.ordinary && slices.ContainsFunc(meanings(address), isSpecial):
		return entry, false
	}
	return entry, as == pattern || len(a.patterns)+len(a.prefixes) == 0
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

// isSpecial reports whether an address is in a special network. A connection to such an address needs an entry with the
// address, with its network, or with the exact name of the host.
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
