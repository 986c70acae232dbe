package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// forced has what cannot be changed created again.
func forced(v *v1alpha1.VidraResource) { v.Spec.Force = true }

// TestF29ImmutableFields changes fields that cannot change: without spec.force that is
// an error that names them, with it the object is created again, and what holds data
// only if it says so itself.
func TestF29ImmutableFields(t *testing.T) {
	t.Parallel()
	_, thing := newStrictKind(t)
	claim := "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n  annotations: {note: mine}\nspec:\n  storageClassName: slow\n" +
		"  accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Gi}}\n"
	kubernetes := &corev1.Service{}
	require.NoError(t, admin.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, kubernetes))
	serviceAt := func(number byte) string {
		address := net.ParseIP(kubernetes.Spec.ClusterIP).To4()
		address[3] = number
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  clusterIP: %s\n  ports: [{port: 80}]\n", address)
	}
	tests := map[string]struct {
		reason        string
		kind, name    string
		before, after string
		field         string
		// kept says that spec.force is not enough, and allow what is.
		kept  bool
		allow string
	}{
		"selector": {
			reason: "of a Deployment", kind: "Deployment", name: "web", field: "spec.selector",
			before: web, after: strings.ReplaceAll(web, "app: web", "app: site"),
		},
		"configuration": {
			reason: "of a ConfigMap that is immutable", kind: "ConfigMap", name: "c", field: "data",
			before: "immutable: true\n" + configMap("c", "one"), after: "immutable: true\n" + configMap("c", "two"),
		},
		"address": { // the lowest ones are not given to other Services
			reason: "of a Service, which the present one holds", kind: "Service", name: "s", field: "spec.clusterIPs[0]",
			before: serviceAt(8), after: serviceAt(9),
		},
		"rule": {
			reason: "of a kind whose author said so, in words of his own", kind: "Thing", name: "thing", field: "spec.size",
			before: thing, after: strings.ReplaceAll(thing, "size: 1", "size: 2"),
		},
		"storage class": {
			reason: "of a claim, which holds data", kind: "PersistentVolumeClaim", name: "data", field: "spec", kept: true,
			before: claim, after: strings.ReplaceAll(claim, "slow", "fast"),
			allow: strings.ReplaceAll(strings.ReplaceAll(claim, "slow", "fast"), "note: mine", v1alpha1.AllowRecreateAnnotation+`: "true"`),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, tt.before)
			awaitReady(t, ns)
			object := declaredObject(t, ns, tt.before, tt.kind, tt.name)
			before := get(t, object)
			setManifest(t, ns, tt.after)
			advice := "spec.force"
			if tt.kept {
				advice = "A deleted claim loses its data"
			}
			v := awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, tt.kind+" "+ns+"/"+tt.name, tt.field, advice)
			awaitEvent(t, v, corev1.EventTypeWarning, "ApplyFailed", "Apply", tt.field, advice)
			require.Equal(t, before.GetUID(), get(t, object).GetUID(), tt.reason)

			mark := auditMark(t)
			require.NoError(t, mergePatch(v, `{"spec":{"force":true}}`))
			if tt.kept {
				awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, tt.field, v1alpha1.AllowRecreateAnnotation)
				require.Equal(t, before.GetUID(), get(t, object).GetUID(), "its data is still there")
				require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")))
				setManifest(t, ns, tt.allow)
				await(t, func(c *assert.CollectT) { // a claim waits for its protection to end
					live := object.DeepCopy()
					require.NoError(c, admin.Get(context.Background(), client.ObjectKeyFromObject(object), live))
					require.NotEqual(c, before.GetUID(), live.GetUID())
				})
				return
			}
			v = awaitReady(t, ns)
			live := requireInOrder(t, ns, declaredObject(t, ns, tt.after, tt.kind, tt.name))
			require.NotEqual(t, before.GetUID(), live.GetUID())
			// A refused one says that the object was another by then: its controller had written to it.
			requireCount(t, 1, func() requests { return operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")).Accepted() }, "once")
			awaitEvent(t, v, corev1.EventTypeNormal, "Replaced", "Apply", tt.kind, tt.field)
			require.NoError(t, deleteVidraResource(t.Context(), ns))
			awaitGone(t, live)
		})
	}
}

// TestForceIsNoCureForMistakes deletes nothing for a manifest that is invalid in itself.
func TestForceIsNoCureForMistakes(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, web, forced)
	awaitReady(t, ns)
	deployment := declaredObject(t, ns, web, "Deployment", "web")
	before := get(t, deployment)
	mark := auditMark(t)
	// The selector changes, and does not match the template.
	setManifest(t, ns, strings.Replace(web, "    matchLabels:\n      app: web", "    matchLabels:\n      app: site", 1))
	awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "Deployment", "spec.selector", "immutable")
	require.Equal(t, before.GetUID(), get(t, deployment).GetUID())
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")))
}

// TestForceNearTheSizeLimit deletes no object whose new creation leaves an entry that the VidraResource has no room for: the VidraResource would be
// refused as too large from then on.
func TestForceNearTheSizeLimit(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const count, limit, room = 60, 1_400_000, 3_000
	of := func(value string, padding int) string {
		text := []string{"# " + strings.Repeat("x", padding) + "\n"}
		for i := range count {
			text = append(text, "immutable: true\n"+configMap(fmt.Sprintf("c%d", i), value))
		}
		return manifests(text...)
	}
	padding := limit
	newVidraResource(t, ns, of("one", padding), forced)
	v := awaitNotReady(t, ns, v1alpha1.ReasonManifestInvalid, "and the limit is 1400000")
	var size int
	_, text, _ := strings.Cut(meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady).Message, "would have ")
	_, err := fmt.Sscanf(text, "%d bytes", &size)
	require.NoError(t, err)
	padding -= size - limit + room
	setManifest(t, ns, of("one", padding))
	awaitReady(t, ns)
	first := declaredObject(t, ns, "immutable: true\n"+configMap("c0", "one"), "ConfigMap", "c0")
	before := get(t, first)
	mark := auditMark(t)
	setManifest(t, ns, of("two", padding))
	awaitNotReady(t, ns, v1alpha1.ReasonApplyFailed, "it is not deleted now: the VidraResource would have", "and the limit is 1400000")
	require.Equal(t, before.GetUID(), get(t, first).GetUID())
	require.Empty(t, operatorSince(t, mark).ObjectsIn(ns).Only(verbIs("delete")))

	setManifest(t, ns, of("two", padding/2))
	awaitReady(t, ns)
	require.NotEqual(t, before.GetUID(), get(t, first).GetUID())
}
