package suite

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

// OperatorUser is the user that the operator is for the API server.
var OperatorUser = UserOf(testenv.OperatorNamespace, testenv.OperatorServiceAccount)

// UserOf is the user that a ServiceAccount is for the API server.
func UserOf(namespace, account string) string {
	return "system:serviceaccount:" + namespace + ":" + account
}

// Request is a request to the API server, from its audit log.
type Request = testenv.AuditEvent

// Requests are requests to the API server, in the order of their answers.
type Requests []Request

// RequestsBy are the requests that a user sent since mark.
func (c *Cluster) RequestsBy(t *testing.T, mark testenv.AuditMark, user string) Requests {
	t.Helper()
	all, err := c.AuditSince(mark)
	require.NoError(t, err)
	return Requests(all).Only(func(r Request) bool { return r.User == user })
}

// ByOperator are the requests that the operator sent since mark. Without those of one that is
// deployed because it holds a Lease, and because clients read its metrics: it sends them at any time.
func (c *Cluster) ByOperator(t *testing.T, mark testenv.AuditMark) Requests {
	t.Helper()
	sent := c.RequestsBy(t, mark, OperatorUser)
	if !Deployed() {
		return sent
	}
	return sent.Only(func(r Request) bool {
		ownLease := r.Resource == "leases" && r.Namespace == testenv.OperatorNamespace
		return !ownLease && r.Resource != "tokenreviews" && r.Resource != "subjectaccessreviews"
	})
}

// RequireCount requires that which returns n requests. It waits for them: a request of
// another client is noted when it is answered, and its effect may be seen before.
func RequireCount(t *testing.T, n int, which func() Requests, msgAndArgs ...any) Requests {
	t.Helper()
	var sent Requests
	Await(t, func(c *assert.CollectT) {
		sent = which()
		require.GreaterOrEqual(c, len(sent), n, "%s", sent)
	}, msgAndArgs...)
	require.Equal(t, n, len(sent), "%s", sent) //nolint:testifylint // Len would print the requests as they are in memory
	return sent
}

// Only are the requests for which keep holds.
func (r Requests) Only(keep func(Request) bool) Requests {
	var kept Requests
	for _, e := range r {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// On are the requests about an object and its subresources.
func (r Requests) On(resource, namespace, name string) Requests {
	return r.Only(func(e Request) bool {
		return e.Resource == resource && e.Namespace == namespace && e.Name == name
	})
}

// ObjectsIn are the requests about objects in a namespace, Events apart.
func (r Requests) ObjectsIn(namespace string) Requests {
	return r.Only(func(e Request) bool { return e.Namespace == namespace && e.Resource != "events" })
}

// Writes are the requests that may change something. Dry runs and reviews of rights do not.
func (r Requests) Writes() Requests {
	return r.Only(func(e Request) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, e.Verb) &&
			e.Group != "authorization.k8s.io" && !strings.Contains(e.RequestURI, "dryRun=All")
	})
}

// After are the requests that were received later. A request that was received before a
// mark, and whose effect was seen, may be noted behind the mark.
func (r Requests) After(start time.Time) Requests {
	return r.Only(func(e Request) bool { return e.Time.After(start) })
}

// Accepted are the requests that the API server did not refuse.
func (r Requests) Accepted() Requests {
	return r.Only(func(e Request) bool { return e.Code < http.StatusBadRequest })
}

// String lists the requests, one a line.
func (r Requests) String() string {
	var b strings.Builder
	for _, e := range r {
		fmt.Fprintf(&b, "%s %s %d ", e.Time.Format("15:04:05.000"), e.Verb, e.Code)
		if e.As != "" {
			fmt.Fprintf(&b, "as %s ", e.As)
		}
		fmt.Fprintln(&b, e.RequestURI)
	}
	return b.String()
}

// NameIs holds for the requests about objects of a name.
func NameIs(name string) func(Request) bool {
	return func(r Request) bool { return r.Name == name }
}

// VerbIs holds for the requests with a verb.
func VerbIs(verb string) func(Request) bool {
	return func(r Request) bool { return r.Verb == verb }
}
