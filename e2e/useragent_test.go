package e2e

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// userAgent is how each request of the operator begins to name itself.
const userAgent = "vidra-operator/"

// TestUserAgent requires that every request of the operator names it and its version: to
// the API server, whatever part of the operator sends it, and to the sink of CloudEvents.
func TestUserAgent(t *testing.T) {
	stopOperator(t)
	var agents sync.Map
	sink := suite.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents.Store(r.UserAgent(), true)
		w.WriteHeader(http.StatusNoContent)
	}))
	mark := auditMark(t)
	operator := startAnother(t, electing("--metrics-secure=true", "--cloudevents-sink="+sink.URL)...)
	ns := newNamespace(t)
	newAccount(t, ns, "deployer", "configmaps")
	require.NoError(t, admin.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "parts"}, Data: map[string]string{"page.yaml": configMap("page", "hello")},
	}))
	newVidraResource(t, ns, configMap("c", "hello"), as("deployer"), fromParts(partIn("ConfigMap", "parts", "page.yaml")))
	awaitReady(t, ns)
	metrics, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(operator.MetricsURL, "http://", "https://", 1), http.NoBody)
	require.NoError(t, err)
	metrics.Header.Set("Authorization", "Bearer none")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // its certificate is one of its own
	t.Cleanup(transport.CloseIdleConnections)
	await(t, func(c *assert.CollectT) { // the operator may be ready before its metrics are served
		response, err := (&http.Client{Transport: transport}).Do(metrics)
		require.NoError(c, err)
		require.NoError(c, response.Body.Close())
	})

	sent := func() requests { return cluster.RequestsBy(t, mark, operatorUser) }
	// Each of these is sent by another client.
	wanted := []string{
		"leases", "events", "tokenreviews", "vidraresources", "configmaps", "namespaces", "customresourcedefinitions", "apiservices",
	}
	await(t, func(c *assert.CollectT) {
		for _, resource := range wanted {
			require.NotEmpty(c, sent().Only(func(r request) bool { return r.Resource == resource }), resource)
		}
		require.NotEmpty(c, sent().Only(func(r request) bool { return strings.HasPrefix(r.RequestURI, "/api") && r.Resource == "" }), "discovery")
		require.NotEmpty(c, sent().Only(func(r request) bool { return r.As != "" }), "impersonated")
	})
	for _, r := range sent() {
		require.Regexp(t, "^"+userAgent+`\S+ \((linux|darwin)/\S+\)$`, r.UserAgent, "%s %s", r.Verb, r.RequestURI)
	}
	await(t, func(c *assert.CollectT) {
		received := 0
		agents.Range(func(agent, _ any) bool {
			received++
			require.True(t, strings.HasPrefix(agent.(string), userAgent), agent)
			return true
		})
		require.Positive(c, received)
	})
}
