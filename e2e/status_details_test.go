package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// awaitEntry waits until the inventory has an object with a health, and a message that contains a text, or none if it is empty.
func awaitEntry(t *testing.T, name, kind, object string, health v1alpha1.ObjectHealth, message string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		e := entry(c, getVidraResource(c, name), kind, object)
		require.Equal(c, health, e.Health)
		require.Contains(c, e.Message, message)
		require.Equal(c, message == "", e.Message == "")
	})
}

// TestStatusHasHealthAndMessages: the inventory has the health and the message of each object, also after a restart,
// which writes nothing. It is not parallel because it restarts the operator.
func TestStatusHasHealthAndMessages(t *testing.T) {
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	bad := "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  ports: [{port: 80}]\n"
	newVidraResource(t, ns, manifests(configMap("page", "hello"), bad, manifest))
	awaitReady(t, ns)
	thing := thingIn(crd, ns)
	awaitEntry(t, ns, "ConfigMap", "page", v1alpha1.ObjectCurrent, "")
	awaitEntry(t, ns, "Service", "bad", v1alpha1.ObjectCurrent, "")
	awaitEntry(t, ns, "Thing", "thing", v1alpha1.ObjectCurrent, "")
	setHealth(t, thing, metav1.ConditionFalse, "the disk is full")
	awaitEntry(t, ns, "Thing", "thing", v1alpha1.ObjectInProgress, "the disk is full")
	setStalled(t, thing)
	awaitEntry(t, ns, "Thing", "thing", v1alpha1.ObjectUnhealthy, "Failed: broken for good")
	setManifest(t, ns, manifests(configMap("page", "hello"), "apiVersion: v1\nkind: Service\nmetadata:\n  name: bad\nspec:\n  ports: [{port: 99999}]\n", manifest))
	awaitEntry(t, ns, "Service", "bad", v1alpha1.ObjectCurrent, "spec.ports[0].port")
	awaitEntry(t, ns, "Thing", "thing", v1alpha1.ObjectUnhealthy, "broken for good")

	stopOperator(t)
	version, mark := getVidraResource(t, ns).ResourceVersion, auditMark(t)
	startOperator(t)
	awaitSilence(t)
	require.Empty(t, statusWrites(t, mark, ns), "nothing is new")
	require.Equal(t, version, getVidraResource(t, ns).ResourceVersion)

	setHealth(t, thing, metav1.ConditionTrue, "")
	setManifest(t, ns, manifests(configMap("page", "hello"), bad, manifest))
	awaitReady(t, ns)
	awaitEntry(t, ns, "Thing", "thing", v1alpha1.ObjectCurrent, "")
	awaitEntry(t, ns, "Service", "bad", v1alpha1.ObjectCurrent, "")
}

// statusWrites are the writes of the operator to the status of a VidraResource since a mark.
func statusWrites(t *testing.T, mark testenv.AuditMark, name string) requests {
	t.Helper()
	return operatorSince(t, mark).Only(func(e request) bool { return e.Resource == "vidraresources" && e.Name == name && e.Verb == "patch" })
}

// TestStatusOfAFlappingObject: of many objects that are not healthy, one whose health flaps costs no more writes of the
// status than one in the time in which they are gathered.
func TestStatusOfAFlappingObject(t *testing.T) {
	t.Parallel()
	const flaps, spacing = 200, 10 * time.Second
	ns := newNamespace(t)
	crd, manifest := newStrictKind(t)
	newVidraResource(t, ns, manifests(manifest, strings.Replace(manifest, "name: thing", "name: other", 1)))
	awaitReady(t, ns)
	thing, other := thingIn(crd, ns), thingIn(crd, ns)
	other.SetName("other")
	setHealth(t, other, metav1.ConditionFalse, "it starts")
	awaitEntry(t, ns, "Thing", "other", v1alpha1.ObjectInProgress, "it starts")
	mark, start := auditMark(t), time.Now()
	for i := range flaps {
		setHealth(t, thing, []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue}[i%2], fmt.Sprintf("%d of 3 run", i%3))
	}
	awaitEntry(t, ns, "Thing", "thing", v1alpha1.ObjectCurrent, "")
	most := 2 + int(time.Since(start)/spacing)
	require.LessOrEqual(t, len(statusWrites(t, mark, ns)), most, "%d flaps", flaps)
}
