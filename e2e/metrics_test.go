package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
)

// TestMetricNames checks the metrics of the operator that all tests share against the conventions of
// Prometheus.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	code, metrics := fetch(t, operator.MetricsURL, "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, metrics, "vidra_build_info{")
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	require.NoError(t, err)
	for _, problem := range problems {
		require.False(t, strings.HasPrefix(problem.Metric, "vidra_"), "%s: %s", problem.Metric, problem.Text)
	}
}

// TestHealDurations reverts a changed value, a structural edit and a deletion, and reads how long they
// took and how long the foreign value stood.
func TestHealDurations(t *testing.T) {
	t.Parallel()
	const tool = "Terraform" // no other test writes under this name
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
	began := time.Now()
	edits := []struct {
		reason, kind string
		edit         func() error
	}{
		{"one PATCH reverts it", "value", func() error {
			return edit(page, types.MergePatchType, `{"data":{"greeting":"bye"}}`, client.FieldOwner(tool))
		}},
		{"the edit removed a field", "structural", func() error {
			return edit(page, types.MergePatchType, `{"data":{"greeting":null}}`, client.FieldOwner(tool))
		}},
		{"the object was deleted", "deletion", func() error { return admin.Delete(t.Context(), page.DeepCopy()) }},
	}
	for _, e := range edits {
		healed := fmt.Sprintf(`vidra_heal_duration_seconds_count{kind=%q}`, e.kind)
		before := suite.Metric(t, operator, healed)
		version := get(t, page).GetResourceVersion()
		require.NoError(t, e.edit())
		await(t, func(c *assert.CollectT) {
			live := &corev1.ConfigMap{}
			require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(page), live))
			require.NotEqual(c, version, live.ResourceVersion)
			require.Equal(c, "hello", live.Data["greeting"])
			require.Greater(c, suite.Metric(c, operator, healed), before, e.reason)
		})
	}
	series := suite.Metrics(t, operator)
	stood := series[`vidra_exposure_seconds_total{manager="Terraform"}`]
	require.Positive(t, stood)
	require.Less(t, stood, time.Since(began).Seconds(), "no value stood longer than the test lasts")
}

// TestConditionSeries reads the conditions of a VidraResource as metrics. They end with it.
func TestConditionSeries(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	v := newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	of := func(t require.TestingT) (found []string) {
		for name, value := range suite.Metrics(t, operator) {
			if strings.Contains(name, fmt.Sprintf(`name=%q`, ns)) {
				require.InDelta(t, 1, value, 0)
				found = append(found, name)
			}
		}
		return found
	}
	await(t, func(c *assert.CollectT) {
		require.Contains(c, of(c), fmt.Sprintf(`vidra_resource_condition{name=%q,status="True",type="Ready"}`, ns))
	})
	require.Positive(t, suite.Metric(t, operator, `vidra_resources{reason="Applied",status="True",type="Ready"}`))
	setManifest(t, ns, "{")
	await(t, func(c *assert.CollectT) {
		found := of(c)
		require.Contains(c, found, fmt.Sprintf(`vidra_resource_condition{name=%q,status="False",type="Ready"}`, ns))
		require.NotContains(c, found, fmt.Sprintf(`vidra_resource_condition{name=%q,status="True",type="Ready"}`, ns))
	})
	setManifest(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	require.NoError(t, deleteVidraResource(t.Context(), ns))
	awaitGone(t, v)
	await(t, func(c *assert.CollectT) { require.Empty(c, of(c)) })
}
