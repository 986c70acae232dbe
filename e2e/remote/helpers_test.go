package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var patience = suite.Patience

const (
	poll   = suite.Poll
	person = suite.Person
)

// What package suite does, on the cluster with the VidraResources, under short names.
var (
	await  = suite.Await
	unique = suite.Unique

	greeting         = suite.Greeting
	manifests        = suite.Manifests
	named            = suite.Named
	orphaning        = suite.Orphaning
	setManifest      = here.SetManifest
	getVidraResource = here.GetVidraResource
	awaitReady       = here.AwaitReady
	awaitNotReady    = here.AwaitNotReady
	awaitCondition   = here.AwaitCondition
	eventsAbout      = here.EventsAbout
	awaitEvent       = here.AwaitEvent
)

// configMap names a ConfigMap.
func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// says is what a ConfigMap says; nothing if it is not there, or not Vidra's.
func (s site) says(t require.TestingT, namespace, name string) string {
	cm := configMap(namespace, name)
	err := s.Admin.Get(context.Background(), client.ObjectKeyFromObject(cm), cm)
	if apierrors.IsNotFound(err) || cm.Labels[v1alpha1.ManagedByLabel] != v1alpha1.ManagedByValue {
		return ""
	}
	require.NoError(t, err)
	return cm.Data["greeting"]
}

// awaitSays waits until a ConfigMap says something.
func (s site) awaitSays(t *testing.T, namespace, name, says string) {
	t.Helper()
	await(t, func(c *assert.CollectT) { require.Equal(c, says, s.says(c, namespace, name)) }, "ConfigMap %s/%s", namespace, name)
}

// edit has a person patch an object.
func (s site) edit(t *testing.T, obj client.Object, format string, args ...any) {
	t.Helper()
	require.NoError(t, s.MergePatch(obj, format, args...))
}

// newVidraResource creates a VidraResource for a server, with the name of its namespace.
func newVidraResource(
	t *testing.T, server, namespace, manifest string, options ...func(*v1alpha1.VidraResource),
) *v1alpha1.VidraResource {
	t.Helper()
	elsewhere := func(v *v1alpha1.VidraResource) { v.Spec.Destination.Server = server }
	return here.NewVidraResource(t, namespace, manifest, append(options, elsewhere)...)
}

// remove has a VidraResource deleted.
func remove(t *testing.T, v *v1alpha1.VidraResource) {
	t.Helper()
	require.NoError(t, here.Admin.Delete(t.Context(), v.DeepCopy()))
}

// awaitUnreachable waits until a VidraResource reports that its destination cannot be
// reached, in a message that contains each part.
func awaitUnreachable(t *testing.T, name string, parts ...string) *v1alpha1.VidraResource {
	t.Helper()
	return here.AwaitNotReady(t, name, v1alpha1.ReasonDestinationUnreachable, parts...)
}
