package namespaced

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/e2e/testenv"
)

// teamA and teamB are the namespaces of config/namespaced. other is one that it does not list.
const (
	teamA = "team-a"
	teamB = "team-b"
	other = "team-c"
)

var (
	// cluster is the control plane, with config/namespaced in it.
	cluster = &suite.Cluster{}
	admin   client.Client
	// installed are the objects of config/namespaced.
	installed []*unstructured.Unstructured
	// operator is the process of Vidra; binary and flags are how it is started.
	operator *testenv.Operator
	binary   string
	flags    []string
)

// The tests share two namespaces and one operator, which some of them restart, so they run one after
// the other.
func TestMain(m *testing.M) {
	suite.Main(m, setUp, cluster.Stop)
}

// setUp starts what the tests share.
func setUp(ctx context.Context) (err error) {
	if binary, err = suite.BuildOperator(ctx); err != nil {
		return err
	}
	if err := cluster.Start(ctx, testenv.Options{Out: os.Stderr}); err != nil {
		return err
	}
	admin = cluster.Admin
	for _, name := range []string{teamA, teamB, other} {
		if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	if installed, err = cluster.InstallFrom(ctx, "namespaced"); err != nil {
		return err
	}
	if flags, err = suite.FlagsOf(installed); err != nil {
		return err
	}
	operator, err = start(ctx, flags...)
	return err
}

// start starts an operator.
func start(ctx context.Context, flags ...string) (*testenv.Operator, error) {
	return cluster.StartOperator(ctx, testenv.OperatorOptions{Binary: binary, Args: flags})
}

// restart ends the operator and starts it with other flags. between is done meanwhile.
func restart(t *testing.T, between func(), flags ...string) {
	t.Helper()
	require.NoError(t, operator.Stop(30*time.Second))
	between()
	var err error
	operator, err = start(t.Context(), flags...)
	require.NoError(t, err)
}

// grant restores what config/namespaced grants in a namespace.
func grant(t *testing.T, namespace string) {
	t.Helper()
	var roles []*unstructured.Unstructured
	for _, o := range installed {
		if o.GetNamespace() == namespace {
			o = o.DeepCopy()
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(o.Object, "metadata", field)
			}
			roles = append(roles, o)
		}
	}
	require.Len(t, roles, 2)
	require.NoError(t, testenv.Apply(t.Context(), cluster.Config, roles))
}

// bindingIn is what grants the Role in a namespace.
func bindingIn(namespace string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": map[string]any{"namespace": namespace, "name": "vidra-managed-kinds"},
	}}
}

// configMapIn is the manifest of a ConfigMap in a namespace.
func configMapIn(namespace, name, greeting string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n  namespace: %s\ndata:\n  greeting: %s\n", name, namespace, greeting)
}

// page is the ConfigMap of a name in a namespace.
func page(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// greeting is what a ConfigMap holds; empty if it does not exist.
func greeting(t require.TestingT, namespace, name string) string {
	cm := page(namespace, name)
	require.NoError(t, client.IgnoreNotFound(admin.Get(context.Background(), client.ObjectKeyFromObject(cm), cm)))
	return cm.Data["greeting"]
}

// requireInScope requires that the operator sent no request about objects of other namespaces, or of
// all of them, since mark, and returns those that were refused for want of a right.
func requireInScope(t *testing.T, mark testenv.AuditMark) (refused suite.Requests) {
	t.Helper()
	wide := map[string]bool{
		"vidraresources": true, "infrahubsyncs": true, "customresourcedefinitions": true, "apiservices": true, "tokenreviews": true,
		"subjectaccessreviews": true, "selfsubjectaccessreviews": true, "namespaces": true, "": true, // discovery
	}
	sent := cluster.ByOperator(t, mark)
	require.NotEmpty(t, sent)
	for _, r := range sent {
		switch {
		case wide[r.Resource]:
		case r.Namespace == teamA, r.Namespace == teamB, r.Namespace == testenv.OperatorNamespace:
		default:
			require.True(t, r.Resource == "events" && r.Namespace == metav1.NamespaceDefault, "%s", suite.Requests{r})
		}
	}
	return sent.Only(func(r suite.Request) bool { return r.Code == http.StatusForbidden })
}
