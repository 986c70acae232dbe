package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// operatorUser is who the operator is for the API server.
const operatorUser = "system:serviceaccount:" + testenv.OperatorNamespace + ":" + testenv.OperatorServiceAccount

// request is a request to the API server, from its audit log.
type request = testenv.AuditEvent

// requests are requests of the operator.
type requests []request

// operatorSince are the requests that the operator sent since mark.
func operatorSince(t *testing.T, mark testenv.AuditMark) requests {
	t.Helper()
	all, err := env.AuditSince(mark)
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(e request) bool { return e.User != operatorUser })
}

// requireCount requires that which returns n requests. It waits for them: what
// somebody else sent is noted when it is answered, and its effect may be seen
// before.
func requireCount(t *testing.T, n int, which func() requests, msgAndArgs ...any) requests {
	t.Helper()
	var sent requests
	await(t, func(c *assert.CollectT) {
		sent = which()
		require.GreaterOrEqual(c, len(sent), n, "%s", sent)
	}, msgAndArgs...)
	require.Equal(t, n, len(sent), "%s", sent) //nolint:testifylint // Len would print the requests as they are in memory
	return sent
}

// only are the requests for which keep holds.
func (r requests) only(keep func(e request) bool) requests {
	var kept requests
	for _, e := range r {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// on are the requests about an object and its subresources.
func (r requests) on(resource, namespace, name string) requests {
	return r.only(func(e request) bool {
		return e.Resource == resource && e.Namespace == namespace && e.Name == name
	})
}

// objectsIn are the requests about objects in a namespace, Events apart.
func (r requests) objectsIn(namespace string) requests {
	return r.only(func(e request) bool { return e.Namespace == namespace && e.Resource != "events" })
}

// writes are the requests that may change something. A dry run does not.
func (r requests) writes() requests {
	return r.only(func(e request) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, e.Verb) && !strings.Contains(e.RequestURI, "dryRun=All")
	})
}

// requireBackoff requires that attempts come less and less often: the time between two is
// doubled each time. Half of that is enough, for one may arrive late and the next not. The
// first ones are so close that a busy machine is late by more than that.
func requireBackoff(t *testing.T, attempts requests) {
	t.Helper()
	const first, from = 500 * time.Millisecond, 3
	require.Greater(t, len(attempts), from, "%s", attempts)
	for i := from; i < len(attempts); i++ {
		require.Greater(t, attempts[i].Time.Sub(attempts[i-1].Time), first/2<<(i-1), "%s", attempts)
	}
}

// after are the requests that were received later. What was received before a mark, and
// its effect seen, may be noted behind the mark.
func (r requests) after(start time.Time) requests {
	return r.only(func(e request) bool { return e.Time.After(start) })
}

// accepted are the requests that the API server did not refuse.
func (r requests) accepted() requests {
	return r.only(func(e request) bool { return e.Code < http.StatusBadRequest })
}

// String lists the requests, one a line.
func (r requests) String() string {
	var b strings.Builder
	for _, e := range r {
		fmt.Fprintf(&b, "%s %s %d %s\n", e.Time.Format("15:04:05.000"), e.Verb, e.Code, e.RequestURI)
	}
	return b.String()
}

func nameIs(name string) func(request) bool {
	return func(e request) bool { return e.Name == name }
}

func verbIs(verb string) func(request) bool {
	return func(e request) bool { return e.Verb == verb }
}
