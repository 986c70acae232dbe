package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// TestFailuresOfSecretsPass: what a later request shows to be over is not told.
func TestFailuresOfSecretsPass(t *testing.T) {
	t.Parallel()
	type answer struct {
		verb string
		err  error
	}
	failed := errors.New("failed")
	tests := map[string]struct {
		answers []answer
		want    string
		// changes is how often it was told.
		changes int
	}{
		"none":                          {[]answer{{"list", nil}, {"watch", nil}, {"watch", nil}}, "", 0},
		"the list fails":                {[]answer{{"list", failed}, {"list", failed}}, "list secrets: failed", 1},
		"another way":                   {[]answer{{"list", failed}, {"list", io.EOF}}, "list secrets: the connection was cut", 2},
		"and does not":                  {[]answer{{"list", failed}, {"list", nil}}, "", 2},
		"the WATCH fails":               {[]answer{{"list", nil}, {"watch", failed}, {"list", nil}}, "watch secrets: failed", 1},
		"and does not fail":             {[]answer{{"watch", failed}, {"list", nil}, {"watch", nil}}, "", 2},
		"a WATCH that begins with all":  {[]answer{{"watch", failed}, {"list", failed}, {"watch", nil}}, "", 3},
		"a list that fails differently": {[]answer{{"watch", failed}, {"list", failed}}, "list secrets: failed", 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := 0
			s := newSecrets(nil, "", func() { changes++ })
			for _, a := range tc.answers {
				s.note(t.Context(), a.verb, a.err)
			}
			_, err := s.sources()
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			require.Equal(t, tc.changes, changes)
		})
	}
}

// TestSecretsWithoutStreamedLists: an API server that cannot list with a WATCH is no failure, as the reflector lists then.
func TestSecretsWithoutStreamedLists(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		streamed bool
		answer   error
		want     string
	}{
		"not served":       {true, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil), ""},
		"not understood":   {true, apierrors.NewBadRequest("sendInitialEvents"), ""},
		"another failure":  {true, apierrors.NewServiceUnavailable("away"), "watch secrets: away"},
		"no streamed list": {false, apierrors.NewBadRequest("no"), "watch secrets: no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSecrets(nil, "", func() {})
			s.source = &cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, tc.answer }}
			_, err := cache.ToListerWatcherWithContext(s.observed()).WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(tc.streamed)})
			require.Equal(t, tc.answer, err)
			if _, err = s.sources(); tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

// TestSecretsThatCannotBeRead has an API server that answers one thing to everything.
func TestSecretsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		namespace string
		code      int
		body      string
		want      []string
	}{
		"forbidden": {
			"", http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`,
			[]string{"may not", "secrets in any namespace", "grant it list and watch"},
		},
		"forbidden in a namespace": {
			"vidra", http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`,
			[]string{"may not list secrets in namespace vidra"},
		},
		"an error": {
			"vidra", http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd is away","code":500}`,
			[]string{"in namespace vidra", "Vidra retries", "etcd is away"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := make(chan *http.Request, 100)
			local := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				requests <- r
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_, _ = io.WriteString(w, tc.body)
			})
			client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: local.URL}, local.Client())
			require.NoError(t, err)
			d := NewDestinations(DestinationsOptions{Secrets: client.CoreV1(), Namespace: tc.namespace})
			start(t, d)
			select {
			case <-requests:
				t.Fatal("a request for Secrets that nobody needs")
			case <-time.After(50 * time.Millisecond):
			}
			c, err := d.Get("https://example.com")
			require.NoError(t, err)
			for _, text := range tc.want {
				await(t, func(ct *assert.CollectT) { assert.ErrorContains(ct, c.Unreachable(), text) })
			}
			require.NotErrorIs(t, c.Unreachable(), ErrStarting)
			request := <-requests
			path := "/api/v1/secrets"
			if tc.namespace != "" {
				path = "/api/v1/namespaces/" + tc.namespace + "/secrets"
			}
			require.Equal(t, path, request.URL.Path)
			require.Equal(t, "cluster-kubeconfig,cluster-kubeconfig!=false", request.URL.Query().Get("labelSelector"))
		})
	}
}
