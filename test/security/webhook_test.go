//go:build integration

package security

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"windlass.dev/windlass/test/framework"
)

// webhookMemory is the largest amount of memory that attacks on the webhook's port may use, in bytes. An operator
// without objects uses 50 MiB. The sum is less than the GOMEMLIMIT in artifacts/deploy, which is 430 MiB.
const webhookMemory = 320 << 20

// TestLargeRequestsDoNotFillWebhookMemory sends large requests to the conversion webhook, which does not
// authenticate its clients.
func TestLargeRequestsDoNotFillWebhookMemory(t *testing.T) {
	t.Parallel()
	const senders = 32
	victim := newVictim(t)
	const head = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",` +
		`"desiredAPIVersion":"cnat.programming-kubernetes.info/v1alpha1","objects":[`
	const at = `{"apiVersion":"cnat.programming-kubernetes.info/v1","kind":"At","metadata":{"name":"a"},` +
		`"spec":{"schedule":"2030-01-01T00:00:00Z","command":["`
	for _, body := range []struct {
		name, head, element, end string
		size                     int
	}{
		{"millions of unknown members", "{", unknownMembers(63 << 20), "", 63 << 20},
		{"small values", head, `{},`, "", 60 << 20},
		{"nested values", head, strings.Repeat("[", 500) + strings.Repeat("]", 500) + ",", "", 60 << 20},
		{"a large string", head, strings.Repeat("x", 1<<20), "", 60 << 20},
		{"Ats", head, at + strings.Repeat(`a","`, 200) + `"]}},`, "", 60 << 20},
		{"Ats, of a size that is read", head, at + strings.Repeat(`a","`, 200) + `"]}},`, at + `"]}}]}}`, 4<<20 - 1<<10},
		{"an At with many words, of a size that is read", head + at, `","`, `"]}}]}}`, 4<<20 - 1<<10},
		{"Ats that count as small", head + at, `","`, `"]}}]}}`, 15 << 10},
	} {
		text := strings.Repeat(body.element, max(1, body.size/len(body.element)))
		var sent sync.WaitGroup
		for i := range senders {
			sent.Go(func() {
				client := &http.Client{Transport: attacker(i % 4)}
				reader := io.MultiReader(strings.NewReader(body.head), strings.NewReader(text), strings.NewReader(body.end))
				response, err := client.Post(victim.WebhookURL, "application/json", reader)
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		}
		sent.Wait()
		t.Logf("%s: the peak is %d MiB", body.name, victim.PeakRSS(t)>>20)
	}
	victim.wantRunning(t)
}

// unknownMembers returns about size bytes of members of a JSON object, each with another name.
func unknownMembers(size int) string {
	var text strings.Builder
	for i := 0; text.Len() < size-16; i++ {
		fmt.Fprintf(&text, "%q:0,", strconv.FormatInt(int64(i), 36))
	}
	return text.String()
}

// TestConnectionsWithLargeHeadersDoNotFillWebhookMemory opens 800 connections from one address, and then 800
// connections from 16 addresses. It sends a header of 1 MiB on each connection, and repeats this at both ports of the
// operator.
func TestConnectionsWithLargeHeadersDoNotFillWebhookMemory(t *testing.T) {
	t.Parallel()
	const connections = 800
	victim := newVictim(t)
	header := []byte("POST /convert HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20))
	for _, addresses := range []int{1, 16} {
		webhook := strings.TrimSuffix(strings.TrimPrefix(victim.WebhookURL, "https://"), "/convert")
		for _, target := range []string{webhook, victim.Health} {
			var open sync.WaitGroup
			for i := range connections {
				open.Go(func() {
					transport := attacker(i % addresses)
					dial := transport.DialTLSContext
					if target == victim.Health {
						dial = transport.DialContext
					}
					conn, err := dial(t.Context(), "tcp", target)
					if err != nil {
						return // the operator has closed the connection
					}
					defer conn.Close()
					_, _ = conn.Write(header)
					_, _ = io.Copy(io.Discard, conn) // until the operator closes the connection
				})
			}
			open.Wait()
			t.Logf("%d addresses, %s: the peak is %d MiB", addresses, target, victim.PeakRSS(t)>>20)
		}
	}
	victim.wantRunning(t)
}

// attacker returns an HTTP transport with its own source address. The transport does not verify certificates.
func attacker(number int) *http.Transport {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 9, byte(1+number))}}
	insecure := &tls.Config{InsecureSkipVerify: true}
	return &http.Transport{
		DialContext:       dialer.DialContext,
		DialTLSContext:    (&tls.Dialer{NetDialer: dialer, Config: insecure}).DialContext,
		DisableKeepAlives: true,
	}
}

// attackedOperator is an operator in a cluster of its own. A test attacks the ports of the operator.
type attackedOperator struct {
	*framework.Process
	place *framework.Installation
	// before is the peak of the operator's resident memory before the attack, in bytes.
	before int64
}

// newVictim starts an operator in a new cluster. The operator ends when the test ends.
func newVictim(t *testing.T) *attackedOperator {
	t.Helper()
	p := framework.Own(t)
	v := &attackedOperator{Process: framework.Launch(t, p.Cluster), place: p}
	t.Cleanup(func() { v.Terminate() })
	v.before = v.PeakRSS(t)
	return v
}

// wantRunning checks that the operator converts Ats after an attack, and that the attack took at most webhookMemory.
func (v *attackedOperator) wantRunning(t *testing.T) {
	t.Helper()
	if more := v.PeakRSS(t) - v.before; more > webhookMemory {
		t.Errorf("the attack took %d MiB", more>>20)
	}
	v.place.Create(t, "default", "example", "echo Hello", nil)
	const ats = "ats.v1alpha1.cnat.programming-kubernetes.info"
	text, err := v.place.Kubectl(t.Context(), "", "get", ats, "-n", "default")
	if err != nil || !strings.Contains(text, "example") {
		t.Errorf("the webhook does not convert after the attack: %v: %s", err, text)
	}
}
