package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// login is a Secret, whose values are never shown.
const login = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\ndata:\n  password: aHVudGVyMQ==\n"

// awaitOccurrences waits until the Events with a reason about an object count so many occurrences, and returns them.
func awaitOccurrences(t *testing.T, obj *unstructured.Unstructured, reason string, n int) (all []eventsv1.Event) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		all = withReason(eventsAbout(c, obj), reason)
		require.Equal(c, n, sum(all))
	})
	return all
}

// TestEventsOfAKeptEdit: an edit that a policy keeps has an Event at the object, too, with the VidraResource and why
// it is not reverted. Another value is another Event, and another value of a Secret is none.
func TestEventsOfAKeptEdit(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), login), withDrift(v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	secret := declaredObject(t, ns, login, "Secret", "login")
	for _, value := range []string{"mine", "yours"} {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, value))
		found := fmt.Sprintf(`data.greeting is %q and should be "hello", set by "person". It is not reverted: spec.drift.mode is Warn`, value)
		awaitEvent(t, v, corev1.EventTypeWarning, "DriftDetected", "Detect", "ConfigMap "+ns+"/page: "+found)
		at := awaitEvent(t, page, corev1.EventTypeWarning, "DriftDetected", "Detect", "VidraResource "+ns+" manages this object: "+found)
		require.NotNil(t, at.Related)
		require.Equal(t, v.UID, at.Related.UID)
	}
	require.NoError(t, mergePatch(secret, `{"data":{"password":"b3RoZXI="}}`))
	awaitEvent(t, secret, corev1.EventTypeWarning, "DriftDetected", "Detect", "data.password (values withheld) was changed")
	require.NoError(t, mergePatch(secret, `{"data":{"password":"bW9yZQ=="}}`))
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	awaitEvent(t, page, corev1.EventTypeWarning, "DriftDetected", "Detect", "it was deleted. It is not reverted: spec.drift.mode is Warn")
	await(t, func(c *assert.CollectT) {
		require.Equal(c, 1, sum(withReason(eventsAbout(c, secret), "DriftDetected")), "nothing is known of the other value")
		require.Equal(c, 3, sum(withReason(eventsAbout(c, page), "DriftDetected")))
		require.Equal(c, 4, sum(withReason(eventsAbout(c, v), "DriftDetected")))
	})
}

// TestEventsOfOtherValues: a reverted edit with another value has Events of its own, and the same edit again is
// counted. All edits of a Secret with one tool are counted in one Event, so that it does not show which values are the same.
func TestEventsOfOtherValues(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(configMap("page", "hello"), login))
	v := awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
	secret := declaredObject(t, ns, login, "Secret", "login")
	for _, value := range []string{"mine", "yours", "mine"} {
		require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, value))
		awaitInOrder(t, ns, page)
	}
	for _, value := range []string{"b25l", "dHdv", "b25l"} {
		require.NoError(t, mergePatch(secret, `{"data":{"password":%q}}`, value))
		awaitInOrder(t, ns, secret)
	}
	for _, value := range []string{"mine", "yours"} {
		told := fmt.Sprintf(`reverted data.greeting to "hello"; "person" had set it to %q`, value)
		awaitEvent(t, v, corev1.EventTypeNormal, "DriftCorrected", "Restore", told)
		awaitEvent(t, page, corev1.EventTypeNormal, "ChangeReverted", "Restore", told)
	}
	require.Len(t, awaitOccurrences(t, page, "ChangeReverted", 3), 2)
	require.Len(t, awaitOccurrences(t, secret, "ChangeReverted", 3), 1)
}
