package cli

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// counted counts the requests of a client.
type counted struct {
	next http.RoundTripper

	mu   sync.Mutex
	sent []string
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.sent = append(c.sent, r.Method+" "+r.URL.RequestURI())
	c.mu.Unlock()
	return c.next.RoundTrip(r)
}

// countedClient is a client for questions, and what it sends.
func countedClient(t *testing.T) (*insight.Client, *counted) {
	t.Helper()
	count := &counted{}
	config := rest.CopyConfig(cluster.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		count.next = next
		return count
	})
	client, err := insight.New(config, insight.Options{})
	require.NoError(t, err)
	return client, count
}

// TestRequestsOfQuestions counts the requests of each question of a client that knows nothing yet, with discovery. A question about an
// object costs at most 6, also where a ConfigMap has the manifest and the cluster has many other VidraResources.
func TestRequestsOfQuestions(t *testing.T) {
	t.Parallel()
	makeNamespace(t, "requests")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "requests", Name: "parts"}, Data: map[string]string{"a.yaml": settings}}))
	vr := cluster.NewVidraResource(t, "requests", "", func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "parts", Key: "a.yaml"}}
	})
	cluster.AwaitReady(t, "requests")
	require.NoError(t, cluster.MergePatch(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "requests", Name: "settings"}}, `{"data":{"greeting":"bye"}}`))
	cluster.AwaitEvent(t, vr, corev1.EventTypeNormal, "DriftCorrected", "Restore", "data.greeting")
	object := insight.Target{Kind: "configmap", Namespace: "requests", Name: "settings"}
	tests := map[string]struct {
		most int
		ask  func(t *testing.T, c *insight.Client) (any, error)
	}{
		"status": {1, func(t *testing.T, c *insight.Client) (any, error) {
			return c.Status(t.Context(), insight.StatusQuery{Name: "requests"})
		}},
		"why": {6, func(t *testing.T, c *insight.Client) (any, error) {
			e, err := c.Why(t.Context(), object)
			require.NotEmpty(t, e.Edits)
			return e, err
		}},
		"blame": {6, func(t *testing.T, c *insight.Client) (any, error) { return c.Blame(t.Context(), object, false) }},
		"history": {5, func(t *testing.T, c *insight.Client) (any, error) {
			return c.History(t.Context(), insight.HistoryQuery{Target: &object})
		}},
		"events": {4, func(t *testing.T, c *insight.Client) (any, error) {
			return c.Events(t.Context(), insight.EventQuery{Target: &object, Namespace: "requests"})
		}},
		"diff": {6, func(t *testing.T, c *insight.Client) (any, error) {
			return c.Diff(t.Context(), insight.PreviewQuery{VidraResource: "requests"})
		}},
		"forecast": {6, func(t *testing.T, c *insight.Client) (any, error) {
			return c.Forecast(t.Context(), insight.PreviewQuery{VidraResource: "requests"})
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			client, count := countedClient(t)
			answer, err := tt.ask(t, client)
			require.NoError(t, err)
			require.NotNil(t, answer)
			t.Logf("%d requests: %v", len(count.sent), count.sent)
			require.NotEmpty(t, count.sent)
			require.LessOrEqual(t, len(count.sent), tt.most, "%v", count.sent)
		})
	}
}
