package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/testenv"
)

// TestPodSecurity has the API server admit the Pod of the operator in a Namespace that enforces the level
// restricted, and requires that it refuses the same Pod without its security context.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	deployment, _ := renderChart(t, testenv.OperatorNamespace).deployment(t)
	template := deployment.Spec.Template
	require.NotEmpty(t, template.Spec.TopologySpreadConstraints, "the replicas run on different nodes if there are some")
	for _, constraint := range template.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
		require.NoError(t, err)
		require.True(t, selector.Matches(labels.Set(template.Labels)), "%s: it selects the Pods of the operator", constraint.TopologyKey)
	}

	enforcing := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "enforcing", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	require.NoError(t, cluster.Admin.Create(t.Context(), enforcing))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: enforcing.Name, Name: template.Spec.ServiceAccountName}}
	require.NoError(t, cluster.Admin.Create(t.Context(), account))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: enforcing.Name, Name: "operator", Labels: template.Labels}, Spec: template.Spec}
	require.NoError(t, cluster.Admin.Create(t.Context(), pod.DeepCopy(), client.DryRunAll))
	pod.Spec.SecurityContext = nil
	refused := cluster.Admin.Create(t.Context(), pod, client.DryRunAll)
	require.True(t, apierrors.IsForbidden(refused), "%v", refused)
	require.ErrorContains(t, refused, "PodSecurity")
}
