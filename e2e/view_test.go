package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestMetricsOfWatches reads what the operator that all tests share reports of the
// watches.
func TestMetricsOfWatches(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	const configMaps = `{destination="",group="",resource="configmaps",version="v1",watched_namespace=""} `
	var metrics string
	series := []string{
		`vidra_watch_state{destination="",group="",reason="",resource="configmaps",state="Synced",version="v1",watched_namespace=""} 1`,
		`vidra_watch_owners` + configMaps, `vidra_watch_objects` + configMaps, `vidra_watch_estimated_bytes` + configMaps,
		`vidra_watch_sync_seconds` + configMaps, `vidra_watch_last_event_age_seconds` + configMaps,
		`vidra_watch_events_total{destination="",group="",resource="configmaps",type="ADDED",version="v1",watched_namespace=""} `,
		"vidra_watch_inconsistencies_total 0\n",
	}
	await(t, func(c *assert.CollectT) { // others use the watch, too, and it may have to begin again
		var code int
		code, metrics = fetch(t, operator.MetricsURL, "")
		require.Equal(c, http.StatusOK, code)
		for _, one := range series {
			require.True(c, strings.Contains(metrics, one), one) //nolint:testifylint // Contains would print all of them
		}
	})
	for line := range strings.SplitSeq(metrics, "\n") {
		if strings.HasPrefix(line, "vidra_watch_") {
			require.NotContains(t, line, ns, "no label names an owner or an object")
		}
	}
}

// TestWatchesAreShownToWhomItIsAllowed has the operator serve its metrics as it
// does by default. It stops the operator, so it does not run in parallel.
func TestWatchesAreShownToWhomItIsAllowed(t *testing.T) {
	ns := newNamespace(t)
	v := newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	stopOperator(t)
	started, err := env.StartOperator(context.Background(), testenv.OperatorOptions{
		Binary: operatorBinary, Args: []string{"--metrics-secure=true"},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, started.Stop(stopTimeout))
	})
	url := "https" + strings.TrimSuffix(strings.TrimPrefix(started.MetricsURL, "http"), "/metrics") + "/watches"

	await(t, func(c *assert.CollectT) {
		code, _ := fetch(t, url, "")
		assert.Equal(c, http.StatusUnauthorized, code, "who is it?")
	}, "it serves them soon after it is ready")
	code, body := fetch(t, url, tokenOf(t, ns, "powerless"))
	require.Equal(t, http.StatusForbidden, code, "%s", body)

	reader := tokenOf(t, ns, "reader")
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "vidra-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "reader"}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), binding) })
	type row struct {
		Watch, State, Reason string
		Owners               []string
	}
	await(t, func(c *assert.CollectT) {
		code, body := fetch(t, url, reader)
		assert.Equal(c, http.StatusOK, code)
		var rows []row
		require.NoError(c, json.Unmarshal([]byte(body), &rows))
		found := false
		for _, r := range rows {
			if r.Watch == "configmaps.v1" {
				found = true
				assert.Equal(c, "Synced", r.State)
				assert.Contains(c, r.Owners, v.Name)
			}
		}
		assert.True(c, found, "%s", body)
	})

	level := strings.TrimSuffix(url, "/watches") + "/loglevel"
	code, body = send(t, http.MethodPut, level, reader, "level=debug")
	require.Equal(t, http.StatusForbidden, code, "a reader of metrics may not change the level: %s", body)
	writer := tokenOf(t, ns, "writer")
	writes := binding.DeepCopy()
	writes.ObjectMeta, writes.RoleRef.Name, writes.Subjects[0].Name = metav1.ObjectMeta{Name: ns + "-writer"}, "vidra-log-level", "writer"
	require.NoError(t, admin.Create(t.Context(), writes))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), writes) })
	const detail = `"level":"debug"`
	require.NotContains(t, suite.LogOf(t, started), detail)
	await(t, func(c *assert.CollectT) {
		code, body := send(t, http.MethodPut, level, writer, "level=debug")
		require.Equal(c, http.StatusOK, code, "%s", body)
		require.Contains(c, body, "debug")
	})
	edited := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(edited, `{"data":{"greeting":"bye"}}`))
	awaitSays(t, edited, "hello")
	await(t, func(c *assert.CollectT) { require.Contains(c, suite.LogOf(t, started), detail) })
	code, body = send(t, http.MethodPut, level, writer, "level=info")
	require.Equal(t, http.StatusOK, code, "%s", body)

	codes := map[int]int{}
	for i := 0; codes[http.StatusTooManyRequests] == 0; i++ { // a slow machine sends more than the burst
		require.Less(t, i, 1000, "each unknown token costs a TokenReview: %v", codes)
		code, _ := fetch(t, url, fmt.Sprint("unknown-", i))
		codes[code]++
	}
	require.Zero(t, codes[http.StatusOK])
}

// fetch gets a URL, with a bearer token unless that is empty. The code is 0 while
// no server answers. The certificate of the operator is its own.
func fetch(t *testing.T, url, token string) (code int, body string) {
	t.Helper()
	return send(t, http.MethodGet, url, token, "")
}

// send is fetch with another method, and with a form as the body.
func send(t *testing.T, method, url, token, form string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DisableKeepAlives: true,
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	read, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(read)
}

// tokenOf makes a ServiceAccount and returns a token of it.
func tokenOf(t *testing.T, namespace, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	require.NoError(t, admin.Create(t.Context(), account))
	token := &authenticationv1.TokenRequest{}
	require.NoError(t, admin.SubResource("token").Create(t.Context(), account, token))
	return token.Status.Token
}

// TestMetricsOfDrift reads what the operator counts of events and heals.
func TestMetricsOfDrift(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"hi"}}`))
	awaitInOrder(t, ns, page)
	require.NoError(t, mergePatch(page, `{"data":{"foreign":"yes"}}`))
	require.NoError(t, mergePatch(page, `{"metadata":{"labels":{"managed-by":null}}}`))
	awaitInOrder(t, ns, page)
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	awaitInOrder(t, ns, page)
	await(t, func(c *assert.CollectT) {
		_, metrics := fetch(t, operator.MetricsURL, "")
		for _, verdict := range []string{"Foreign", "Drift", "Deleted"} {
			require.Regexp(c, `vidra_trigger_verdicts_total\{destination="",group="",resource="configmaps",verdict="`+verdict+`",version="v1"\} [1-9]`, metrics)
		}
		for _, action := range []string{"Restored", "Recreated", "Relabelled"} {
			require.Regexp(c, `vidra_heals_total\{action="`+action+`",group="",kind="ConfigMap"\} [1-9]`, metrics)
		}
		require.Contains(c, metrics, "vidra_trigger_causes_overflowed_total 0\n")
	})
}
