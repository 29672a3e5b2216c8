//go:build integration

package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"windlass.dev/windlass/pkg/plan"
	"windlass.dev/windlass/test/postgres"
)

// difference returns the difference between the planned writes and the writes of the operator. It returns "" if there
// is no difference.
func (s *scenario) difference(planned, written []string) string {
	if text := cmp.Diff(s.inOrder(planned), s.inOrder(written)); text != "" {
		return fmt.Sprintf("the plan has %d writes, and the operator has sent %d:\n%s", len(planned), len(written), text)
	}
	if s.collects && !s.grows {
		return differenceOfStatuses(planned, written)
	}
	return ""
}

// inOrder returns the writes that the plan can predict, in an order that the plan can predict.
func (s *scenario) inOrder(writes []string) []string {
	rejected := map[string]bool{}
	writes = slices.DeleteFunc(slices.Clone(writes), func(w string) bool {
		line := firstLine(w)
		// the garbage collector or the storage may have acted first
		if (s.collects || s.grows) && (isOfStatus(line) || strings.HasSuffix(line, ": 409")) {
			return true
		}
		again := rejected[w]
		rejected[w] = !strings.HasSuffix(line, ": 200")
		return again // the operator repeats a rejected write from time to time
	})
	for i := range writes {
		if s.collects { // the garbage collector removes its own finalizer at any time
			writes[i] = strings.Replace(writes[i], "finalizers:\n  - foregroundDeletion\n", "finalizers: []\n", 1)
		}
	}
	if s.unordered || s.collects {
		slices.SortStableFunc(writes, func(a, b string) int { return strings.Compare(objectOf(a), objectOf(b)) })
	}
	return writes
}

// differenceOfStatuses compares the last status of each object. The operator may skip earlier statuses, because it does
// not observe states that end soon.
func differenceOfStatuses(planned, written []string) string {
	last := func(writes []string) map[string]string {
		statuses := map[string]string{}
		for _, w := range writes {
			if line := firstLine(w); isOfStatus(line) && strings.HasSuffix(line, ": 200") {
				statuses[objectOf(w)] = w
			}
		}
		return statuses
	}
	return cmp.Diff(last(planned), last(written))
}

// The first line of a write has the verb, the resource with a subresource, the name, and the code of the response.

func firstLine(write string) string {
	line, _, _ := strings.Cut(write, "\n")
	return line
}

func isOfStatus(line string) bool { return strings.Contains(line, "/status ") }

// objectOf returns the resource and the name of the object of a write.
func objectOf(write string) string {
	object, _, _ := strings.Cut(write, ":")
	_, object, _ = strings.Cut(object, " ")
	return strings.Replace(object, "/status", "", 1)
}

// proxies has a *postgres.Proxy for each namespace. Each proxy records the statements for the ExternalDatabases in its
// namespace.
var proxies sync.Map

// portOfServer returns the port of the proxy of a namespace.
func portOfServer(t *testing.T, namespace string) string {
	t.Helper()
	proxy, err := postgres.Intercept("127.0.0.1:"+server.Port, nil)
	if err != nil {
		t.Fatal(err)
	}
	proxies.Store(namespace, proxy)
	return proxy.Port
}

// verifier matches the SCRAM verifier of a password in a statement.
var verifier = regexp.MustCompile(`'SCRAM-SHA-256[^']*'`)

// executed returns the statements that changed something for the ExternalDatabases in a namespace.
func executed(namespace string) []string {
	statements := []string{}
	proxy, ok := proxies.Load(namespace)
	if !ok {
		return statements
	}
	for _, sql := range proxy.(*postgres.Proxy).Statements() {
		if sql != postgres.Login && !strings.HasPrefix(sql, "select") {
			statements = append(statements, varying.ReplaceAllString(verifier.ReplaceAllString(sql, "'(changed)'"), "VARIES"))
		}
	}
	return statements
}

// plannedStatements returns the planned statements for the ExternalDatabases in a namespace.
func plannedStatements(all []plan.Write, namespace string) []string {
	statements := []string{}
	for _, w := range all {
		if w.Verb == plan.Execute && strings.HasPrefix(w.Writer, "ExternalDatabase "+namespace+"/") {
			statements = append(statements, varying.ReplaceAllString(string(w.Body), "VARIES"))
		}
	}
	return statements
}
