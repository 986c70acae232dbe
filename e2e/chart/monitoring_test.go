package chart

import (
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestMonitoring reads the objects for the Prometheus Operator with its own types, which refuse a field that
// they do not have. The API server of the tests does not serve these kinds.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]objects{
		"kustomize": overlay{Resources: []string{"default"}, Components: []string{"components/service-monitor", "components/prometheus-rule"}}.render(t),
		"chart": renderChart(t, testenv.OperatorNamespace,
			"--set=serviceMonitor.enabled=true,prometheusRule.enabled=true,serviceMonitor.labels.release=monitoring,prometheusRule.labels.release=monitoring"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			monitor, rule, service := &monitoringv1.ServiceMonitor{}, &monitoringv1.PrometheusRule{}, &corev1.Service{}
			all.as(t, "ServiceMonitor vidra-system/vidra-operator", monitor)
			all.as(t, "PrometheusRule vidra-system/vidra-operator", rule)
			all.as(t, "Service vidra-system/vidra-operator-metrics", service)
			require.Equal(t, monitoringv1.SchemeGroupVersion.String(), monitor.APIVersion)
			require.Equal(t, monitoringv1.SchemeGroupVersion.String(), rule.APIVersion)

			require.Len(t, monitor.Spec.Endpoints, 1)
			require.True(t, labels.SelectorFromSet(monitor.Spec.Selector.MatchLabels).Matches(labels.Set(service.Labels)), "it selects the Service")
			require.True(t, slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == monitor.Spec.Endpoints[0].Port }),
				"the Service has the port %q", monitor.Spec.Endpoints[0].Port)
			require.Len(t, rule.Spec.Groups, 1)
			for _, r := range rule.Spec.Groups[0].Rules {
				require.NotEmpty(t, r.Alert)
				require.NotEmpty(t, r.Expr.String(), r.Alert)
			}
		})
	}
}
