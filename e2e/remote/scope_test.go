package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// orphaning leaves the objects in place: a Namespace would not go soon.
// annotate sets an annotation of the Secret of a destination.
func (d destination) annotate(t *testing.T, key, value string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testenv.OperatorNamespace, Name: d.name}}
	here.edit(t, secret, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

// TestAllowedVidraResources uses a kubeconfig for the VidraResources alone that its Secret
// allows.
func TestAllowedVidraResources(t *testing.T) {
	t.Parallel()
	d, _ := newAccountDestination(t)
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	d.annotate(t, cluster.AllowedVidraResources, "none, "+d.name+"-mine*")
	mine := newVidraResource(t, d.url(), d.name, greeting("mine", "hello"), named(d.name+"-mine"))
	awaitReady(t, mine.Name)
	mark := there.AuditMark(t)
	other := newVidraResource(t, d.url(), d.name, greeting("other", "hello"), named(d.name+"-other"))
	v := awaitUnreachable(t, other.Name, "Secret "+testenv.OperatorNamespace+"/"+d.name, cluster.AllowedVidraResources)
	require.Empty(t, v.Status.ManagedResources)
	awaitEvent(t, v, corev1.EventTypeWarning, v1alpha1.ReasonDestinationUnreachable, "", cluster.AllowedVidraResources)
	require.Empty(t, there.RequestsBy(t, mark, d.user).ObjectsIn(d.name).Writes())

	d.annotate(t, cluster.AllowedVidraResources, d.name+"-other")
	awaitReady(t, other.Name)
	awaitUnreachable(t, mine.Name, cluster.AllowedVidraResources)
	require.True(t, there.Exists(t, configMap(d.name, "mine")), "what was applied stays")
	remove(t, mine)
	awaitUnreachable(t, mine.Name, cluster.AllowedVidraResources, "its objects (1)", "spec.deletionPolicy")
	require.True(t, there.Exists(t, configMap(d.name, "mine")))
	d.annotate(t, cluster.AllowedVidraResources, "*")
	here.AwaitGone(t, mine)
	there.AwaitGone(t, configMap(d.name, "mine"))
}

// TestAllowedNamespaces applies no object to a namespace that the Secret does not allow,
// wherever the VidraResource names it, and watches none of its objects.
func TestAllowedNamespaces(t *testing.T) {
	t.Parallel()
	in := func(namespace, name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n  namespace: " + namespace + "\ndata:\n  greeting: hello\n"
	}
	d, _ := newAccountDestination(t)
	there.MakeNamespace(t, d.name+"-more")
	setKubeconfig(t, d.name, kubeconfig(t, d.config))
	d.annotate(t, cluster.AllowedNamespaces, d.name)
	mark := there.AuditMark(t)
	unreachable, outOfScope := v1alpha1.ReasonDestinationUnreachable, v1alpha1.ReasonOutOfScope
	for name, tt := range map[string]struct{ reason, namespace, manifest, says string }{
		"destination": {unreachable, d.name + "-more", greeting("page", "hello"), "namespace " + d.name + "-more"},
		"object":      {outOfScope, d.name, manifests(greeting("page", "hello"), in(d.name+"-more", "other")), "namespace " + d.name + "-more"},
		"namespace":   {outOfScope, d.name, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + d.name + "-new\n", "namespace " + d.name + "-new"},
		"clusterwide": {outOfScope, d.name, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + d.name + "\n", "objects without a namespace"},
	} {
		v := newVidraResource(t, d.url(), tt.namespace, tt.manifest, named(d.name+"-"+name), orphaning)
		awaitNotReady(t, v.Name, tt.reason, "Secret "+testenv.OperatorNamespace+"/"+d.name, tt.says)
	}
	for _, r := range there.RequestsBy(t, mark, d.user) {
		identifies := r.Resource == "namespaces" && strings.HasSuffix(r.RequestURI, "fieldSelector=metadata.name%3Dkube-system") // the cluster
		require.True(t, identifies || r.Namespace == d.name || r.Resource == "" || r.Resource == "customresourcedefinitions" || r.Resource == "apiservices",
			"%s %s is about another namespace, or all of them", r.Verb, r.RequestURI)
	}
	require.Equal(t, "hello", there.says(t, d.name, "page"), "the others are applied")
	newVidraResource(t, d.url(), d.name, manifests(greeting("allowed", "hello"), "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: "+d.name+"\n"),
		orphaning, func(v *v1alpha1.VidraResource) { v.Spec.Adopt = v1alpha1.AdoptAlways })
	awaitReady(t, d.name)
	d.annotate(t, cluster.AllowedNamespaces, d.name+"*")
	awaitReady(t, d.name+"-object")
	there.edit(t, configMap(d.name+"-more", "other"), `{"data":{"greeting":"edited"}}`)
	await(t, func(c *assert.CollectT) { require.Equal(c, "hello", there.says(c, d.name+"-more", "other")) })
	d.annotate(t, cluster.AllowedNamespaces, d.name)
	awaitNotReady(t, d.name+"-object", v1alpha1.ReasonOutOfScope, "ConfigMap "+d.name+"-more/other: document 2")
	for _, r := range there.RequestsBy(t, mark, d.user) {
		require.Regexp(t, `^vidra-operator/\S+ \(`, r.UserAgent, r.RequestURI)
	}
}
