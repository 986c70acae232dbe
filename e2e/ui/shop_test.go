package ui

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// settings is a ConfigMap, and web a Deployment.
var settings, web = suite.Settings, suite.Web(2)

// credentials is a Secret.
const credentials = `apiVersion: v1
kind: Secret
metadata:
  name: credentials
stringData:
  password: swordfish
`

// shop has the VidraResource shop, which the tests share, with objects of several kinds.
func shop(t *testing.T) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := admin.Create(t.Context(), namespace); apierrors.IsAlreadyExists(err) {
		return
	}
	v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "web"}}}
	v.Spec.Destination.Namespace, v.Spec.Manifest = "shop", suite.Manifests(settings, web, credentials)
	require.NoError(t, admin.Create(t.Context(), v))
	cluster.AwaitReady(t, "shop")
}

// theSettings is the ConfigMap of shop, and theWeb its Deployment.
func theSettings() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}
}

// editGreeting edits the ConfigMap of shop as a user does with kubectl edit.
func editGreeting(t *testing.T, value string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"greeting":"`+value+`"}}`))
	require.NoError(t, admin.Patch(t.Context(), theSettings(), patch, client.FieldOwner("kubectl-edit")))
}

// others are VidraResources in other states.
func others(t *testing.T) {
	t.Helper()
	shop(t)
	if cluster.Exists(t, &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "billing"}}) {
		return
	}
	for _, name := range []string{"cart", "ledger", "search"} {
		require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for name, spec := range map[string]v1alpha1.VidraResourceSpec{
		"billing": {Manifest: "apiVersion: billing.example/v1\nkind: Invoice\nmetadata: {name: first}\n"},
		"cart":    {Manifest: suite.Greeting("cart", "hello"), Drift: &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}},
		"ledger":  {Manifest: suite.Greeting("ledger", "hello")},
		"search":  {Manifest: suite.Greeting("search", "hello")},
	} {
		v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "core"}}, Spec: spec}
		v.Spec.Destination.Namespace = "search"
		if name != "billing" {
			v.Spec.Destination.Namespace = name
		}
		require.NoError(t, admin.Create(t.Context(), v))
	}
	cluster.AwaitReady(t, "cart")
	cluster.AwaitReady(t, "ledger")
	cluster.AwaitReady(t, "search")
	cart := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "cart", Name: "cart"}}
	require.NoError(t, cluster.MergePatch(cart, `{"data":{"greeting":"bye"}}`))
	require.NoError(t, cluster.MergePatch(&v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "ledger"}}, `{"spec":{"suspend":true}}`))
	cluster.AwaitNotReady(t, "cart", v1alpha1.ReasonDriftDetected)
	cluster.AwaitNotReady(t, "billing", v1alpha1.ReasonKindUnavailable)
}
