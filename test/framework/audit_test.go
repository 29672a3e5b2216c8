package framework

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestRequestsWaitsForResponsesToReceivedWrites covers a caller that sees the effect of a write before the API server
// logs its response.
func TestRequestsWaitsForResponsesToReceivedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{audited: auditedIn(t.TempDir())}
		c.log(t, "RequestReceived", "1", "patch")
		c.log(t, "ResponseComplete", "2", "get")
		var found []Request
		var err error
		ended := false
		go func() {
			found, err = c.Requests(func(Request) bool { return true })
			ended = true
		}()
		synctest.Wait()
		if ended {
			t.Errorf("Requests returned %v before the response", found)
		}
		c.log(t, "RequestReceived", "3", "create") // after the call: not awaited
		c.log(t, "ResponseComplete", "1", "patch")
		<-time.After(time.Second)
		synctest.Wait()
		if err != nil || !ended || fmt.Sprint(found) != "[get ats / patch ats /]" {
			t.Errorf("Requests returned %v, %v; ended: %t", found, err, ended)
		}
	})
}

// TestRequestsFailsForWriteWithoutResponse checks that Requests returns an error, and no incomplete list, if a write
// has no response.
func TestRequestsFailsForWriteWithoutResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{audited: auditedIn(t.TempDir())}
		c.log(t, "RequestReceived", "1", "patch")
		if found, err := c.Requests(func(Request) bool { return true }); err == nil {
			t.Errorf("Requests returned %v, want an error", found)
		}
		if err := c.audited.forgetPending(); err != nil { // the API server was restarted
			t.Fatal(err)
		}
		if found, err := c.Requests(func(Request) bool { return true }); err != nil || len(found) > 0 {
			t.Errorf("after a restart of the API server, Requests returned %v, %v", found, err)
		}
	})
}

// log adds an event to the audit log.
func (c *Cluster) log(t *testing.T, stage, id, verb string) {
	t.Helper()
	file, err := os.OpenFile(c.audited.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, `{"stage":%q,"auditID":%q,"verb":%q,"objectRef":{"resource":"ats"}}`+"\n", stage, id,
		verb); err != nil {
		t.Fatal(err)
	}
}
