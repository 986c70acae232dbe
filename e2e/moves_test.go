package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// claimOf is a manifest with a PersistentVolumeClaim, whose deletion loses data.
func claimOf(name, label string) string {
	return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: " + name + "\n  labels:\n    app: " + label +
		"\nspec:\n  accessModes: [ReadWriteOnce]\n  resources:\n    requests:\n      storage: 1Gi\n"
}

// requireMoved requires that an object is managed by one VidraResource, was neither deleted nor created again, and
// is as the manifest specifies.
func requireMoved(t *testing.T, to string, obj *unstructured.Unstructured, uid types.UID) *unstructured.Unstructured {
	t.Helper()
	live := obj.DeepCopy()
	await(t, func(c *assert.CollectT) {
		require.NoError(c, admin.Get(t.Context(), client.ObjectKeyFromObject(obj), live))
		require.Equal(c, []string{"vidra/" + to}, appliedBy(live))
	})
	require.Equal(t, uid, live.GetUID(), "%s was deleted and created again", obj.GetName())
	require.Empty(t, live.GetDeletionTimestamp())
	return live
}

// vidraResourceOf is a VidraResource that is not created yet.
func vidraResourceOf(name, namespace, manifest string) *v1alpha1.VidraResource {
	return &v1alpha1.VidraResource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: namespace}, Manifest: manifest},
	}
}

// TestMove moves an object from one VidraResource to another in each order of the two writes: its uid survives, no field
// of the former manifest stays, and no conflict is reported.
func TestMove(t *testing.T) {
	t.Parallel()
	const stays = "stays"
	cases := map[string]struct {
		reason string
		// was and is are the manifests with the object, before the move and after it.
		was, is func(ns string) string
		kind    string
		// move does the move, from one to two.
		move func(t *testing.T, ns, one, two, is string)
	}{
		"GiverFirst": {
			"The former owner is written first, as in one kubectl apply of both in the order of their names.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "hello") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is))
			},
		},
		"ReceiverFirst": {
			"The new owner is written first.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "hello") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, two, manifests(configMap("other", two), is))
				setManifest(t, one, configMap(stays, one))
			},
		},
		"GiverFirstChanged": {
			"The new manifest has another value, and drops a field.",
			func(string) string { return configMap("page", "hello") + "  dropped: soon\n" }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is))
			},
		},
		"ReceiverFirstChanged": {
			"The new manifest has another value, and drops a field.",
			func(string) string { return configMap("page", "hello") + "  dropped: soon\n" }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, two, manifests(configMap("other", two), is))
				setManifest(t, one, configMap(stays, one))
			},
		},
		"Claim": {
			"The data of a claim is lost with it.",
			func(string) string { return claimOf("page", "one") }, func(string) string { return claimOf("page", "two") }, "PersistentVolumeClaim",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is))
			},
		},
		"ToANewOne": {
			"The new owner is created in the same apply.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, ns, one, two, is string) {
				require.NoError(t, deleteVidraResource(t.Context(), two))
				awaitGone(t, vidraResourceOf(two, ns, ""))
				setManifest(t, one, configMap(stays, one))
				require.NoError(t, admin.Create(t.Context(), vidraResourceOf(two, ns, is)))
			},
		},
		"Rename": {
			"The former owner is deleted, and the new one is created with its manifest.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "hello") }, "ConfigMap",
			func(t *testing.T, ns, one, two, is string) {
				require.NoError(t, deleteVidraResource(t.Context(), two))
				awaitGone(t, vidraResourceOf(two, ns, ""))
				require.NoError(t, deleteVidraResource(t.Context(), one))
				require.NoError(t, admin.Create(t.Context(), vidraResourceOf(two, ns, is)))
				awaitGone(t, vidraResourceOf(one, ns, ""))
			},
		},
		"RenameChanged": {
			"The former owner is deleted, and the new one has another value.",
			func(string) string { return claimOf("page", "one") }, func(string) string { return claimOf("page", "two") }, "PersistentVolumeClaim",
			func(t *testing.T, ns, one, two, is string) {
				require.NoError(t, deleteVidraResource(t.Context(), one))
				setManifest(t, two, manifests(configMap("other", two), is))
				awaitGone(t, vidraResourceOf(one, ns, ""))
			},
		},
		"NamespaceInTheManifest": {
			"One manifest names the namespace, and the other one leaves it to spec.destination.",
			func(ns string) string {
				return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  namespace: " + ns + "\ndata:\n  greeting: hello\n"
			},
			func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is))
			},
		},
		"ToAPart": {
			"The new owner has it in a ConfigMap of spec.manifestFrom, which is written last.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, ns, one, two, is string) {
				part := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "part"}, Data: map[string]string{"manifest": configMap("other", two)}}
				require.NoError(t, admin.Create(t.Context(), part))
				require.NoError(t, mergePatch(getVidraResource(t, two), `{"spec":{"manifest":null,"manifestFrom":[{"kind":"ConfigMap","name":"part","key":"manifest"}]}}`))
				awaitReady(t, two)
				setManifest(t, one, configMap(stays, one))
				part.Data["manifest"] = manifests(configMap("other", two), is)
				require.NoError(t, admin.Update(t.Context(), part))
			},
		},
		"ToASuspendedOne": {
			"The new owner applies it only when it is resumed.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				require.NoError(t, mergePatch(getVidraResource(t, two), `{"spec":{"suspend":true}}`))
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is))
				awaitNotReady(t, one, v1alpha1.ReasonProgressing, "ConfigMap", "page", "VidraResource "+two)
				require.NoError(t, mergePatch(getVidraResource(t, two), `{"spec":{"suspend":false}}`))
			},
		},
		"ToAnInvalidOne": {
			"The manifest of the new owner cannot be read until it is corrected.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is, "kind: [\n"))
				awaitNotReady(t, one, v1alpha1.ReasonProgressing, "ConfigMap", "page", "VidraResource "+two)
				setManifest(t, two, manifests(configMap("other", two), is))
			},
		},
		"ToOneThatNeverAdopts": {
			"spec.adopt is about objects that no VidraResource manages.",
			func(string) string { return configMap("page", "hello") }, func(string) string { return configMap("page", "goodbye") }, "ConfigMap",
			func(t *testing.T, _, one, two, is string) {
				require.NoError(t, mergePatch(getVidraResource(t, two), `{"spec":{"adopt":"Never"}}`))
				setManifest(t, one, configMap(stays, one))
				setManifest(t, two, manifests(configMap("other", two), is))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			one, two := ns+"-one", ns+"-two"
			newVidraResource(t, ns, manifests(configMap(stays, one), tc.was(ns)), named(one))
			newVidraResource(t, ns, configMap("other", two), named(two))
			awaitReady(t, one)
			awaitReady(t, two)
			t.Cleanup(func() { // it may have been created again
				require.NoError(t, client.IgnoreNotFound(deleteVidraResource(context.Background(), two)))
				awaitGone(t, vidraResourceOf(two, ns, ""))
			})
			page := declaredObject(t, ns, tc.is(ns), tc.kind, "page")
			uid := get(t, page).GetUID()

			tc.move(t, ns, one, two, tc.is(ns))
			requireMoved(t, two, page, uid)
			awaitReady(t, two)
			requireInOrder(t, two, page)
			live := get(t, page) // the new owner gets the fields of the former one before it applies its own
			_, dropped, err := unstructured.NestedString(live.Object, "data", "dropped")
			require.NoError(t, err)
			require.False(t, dropped, "a field of the former manifest stays")
			require.NotContains(t, live.GetAnnotations(), v1alpha1.OwnerAnnotationKey(one))
			for _, e := range eventsAbout(t, getVidraResource(t, two)) {
				require.NotEqual(t, v1alpha1.ReasonOwnershipConflict, e.Reason, "%s: %s", tc.reason, e.Note)
			}
			if name != "Rename" && name != "RenameChanged" {
				awaitReady(t, one)
			}
		})
	}
}

// TestMoveInACircle moves objects between three VidraResources at once, each to the next one, with other values.
func TestMoveInACircle(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	names := []string{ns + "-a", ns + "-b", ns + "-c"}
	pages := []string{"page-a", "page-b", "page-c"}
	uids := make([]types.UID, len(names))
	for i, name := range names {
		newVidraResource(t, ns, configMap(pages[i], "hello"), named(name))
	}
	for i, name := range names {
		awaitReady(t, name)
		uids[i] = get(t, declaredObject(t, ns, configMap(pages[i], "hello"), "ConfigMap", pages[i])).GetUID()
	}
	for i, name := range names {
		setManifest(t, name, configMap(pages[(i+1)%len(pages)], "goodbye"))
	}
	for i, name := range names {
		next := (i + 1) % len(pages)
		page := declaredObject(t, ns, configMap(pages[next], "goodbye"), "ConfigMap", pages[next])
		requireMoved(t, name, page, uids[next])
		awaitReady(t, name)
		requireInOrder(t, name, page)
	}
}

// TestMoveBetweenParts moves an object between two parts of a manifest, which are written one after the other.
func TestMoveBetweenParts(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	part := func(name, manifest string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"manifest": manifest}}
	}
	first := part("first", manifests(configMap("stays", "hello"), configMap("page", "hello")))
	second := part("second", configMap("other", "hello"))
	require.NoError(t, admin.Create(t.Context(), first))
	require.NoError(t, admin.Create(t.Context(), second))
	newVidraResource(t, ns, "", func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{
			{Kind: "ConfigMap", Name: "first", Key: "manifest"}, {Kind: "ConfigMap", Name: "second", Key: "manifest"},
		}
	})
	awaitReady(t, ns)
	page := declaredObject(t, ns, configMap("page", "goodbye"), "ConfigMap", "page")
	uid := get(t, page).GetUID()
	first.Data["manifest"] = configMap("stays", "hello")
	require.NoError(t, admin.Update(t.Context(), first))
	second.Data["manifest"] = manifests(configMap("other", "hello"), configMap("page", "goodbye"))
	require.NoError(t, admin.Update(t.Context(), second))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "goodbye", greeting(c, page))
	})
	require.Equal(t, uid, get(t, page).GetUID())
}

// TestMoveIsNotBlockedByOthers removes an object while another VidraResource cannot be read, and does not name it.
func TestMoveIsNotBlockedByOthers(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	one, two, three := ns+"-one", ns+"-two", ns+"-three"
	newVidraResource(t, ns, manifests(configMap("stays", one), configMap("page", "hello")), named(one))
	newVidraResource(t, ns, "kind: [\n", named(two))
	newVidraResource(t, ns, "", named(three), func(v *v1alpha1.VidraResource) {
		v.Spec.ManifestFrom = []v1alpha1.ManifestSource{{Kind: "ConfigMap", Name: "missing", Key: "manifest"}}
	})
	four := ns + "-four"
	newVidraResource(t, ns+"-elsewhere", "kind: [\n# the page of Secret page", named(four))
	awaitReady(t, one)
	awaitNotReady(t, two, v1alpha1.ReasonManifestInvalid)
	awaitNotReady(t, four, v1alpha1.ReasonManifestInvalid)
	awaitNotReady(t, three, v1alpha1.ReasonSourceUnavailable)
	began := time.Now()
	setManifest(t, one, configMap("stays", one))
	awaitGone(t, declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page"))
	require.Less(t, time.Since(began), 30*time.Second, "an unreadable manifest that has the name alone held it")
	awaitReady(t, one)
}

// TestMoveDuringALongRemoval: of many objects that leave a manifest, those whose deletion is still to begin go to a VidraResource that has them in its manifest by
// then, although that is still to apply them.
func TestMoveDuringALongRemoval(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	giver, taker := ns+"-giver", ns+"-taker"
	all := pages(60)
	newVidraResource(t, ns, all, named(giver))
	awaitReady(t, giver)
	before := map[string]types.UID{}
	for _, obj := range declared(t, ns, all) {
		before[obj.GetName()] = get(t, obj).GetUID()
	}
	begun, taken := make(chan struct{}), make(chan struct{})
	var deleted atomic.Int32
	startWebhook(t, ns, false, func(ctx context.Context, r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if r.Operation == admissionv1.Delete {
			if deleted.Add(1) == 1 {
				close(begun)
			}
			<-taken
			select {
			case <-time.After(4 * time.Second): // longer than an answer about receivers counts
			case <-ctx.Done():
			}
		}
		return nil
	})
	setManifest(t, giver, configMap("stays", "hello"))
	<-begun
	newVidraResource(t, ns, all, named(taker), suspend)
	close(taken)
	await(t, func(c *assert.CollectT) {
		ready := condition(c, getVidraResource(c, giver), v1alpha1.ConditionReady)
		require.Contains(c, ready.Message, taker)
	})
	changeSpec(t, taker, func(spec *v1alpha1.VidraResourceSpec) { spec.Suspend = false })
	awaitReady(t, giver)
	awaitReady(t, taker)
	require.Less(t, int(deleted.Load()), len(before))
	kept := 0
	for _, obj := range declared(t, ns, all) {
		live := get(t, obj)
		require.Equal(t, []string{v1alpha1.FieldManager(taker)}, appliedBy(live))
		if live.GetUID() == before[obj.GetName()] {
			kept++
		}
	}
	require.Equal(t, len(before)-int(deleted.Load()), kept)
}

// TestReceiverLeaves takes an object back into its former manifest right after the removal no longer waits for the VidraResource that it was to move to,
// which dropped it or was deleted: it keeps its uid. Without that, it goes.
func TestReceiverLeaves(t *testing.T) {
	t.Parallel()
	for _, deleted := range []bool{false, true} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("deleted: %t, taken back: %t", deleted, back), func(t *testing.T) {
				t.Parallel()
				ns := newNamespace(t)
				giver, taker := ns+"-giver", ns+"-taker"
				both := manifests(configMap("stays", giver), configMap("page", "hello"))
				newVidraResource(t, ns, both, named(giver))
				awaitReady(t, giver)
				obj := declaredObject(t, ns, both, "ConfigMap", "page")
				uid := get(t, obj).GetUID()
				newVidraResource(t, ns, configMap("page", "hello"), named(taker), func(vr *v1alpha1.VidraResource) { vr.Spec.Suspend = true })
				setManifest(t, giver, configMap("stays", giver))
				awaitNotReady(t, giver, v1alpha1.ReasonProgressing, "is in the manifest of VidraResource "+taker)
				if deleted {
					require.NoError(t, deleteVidraResource(t.Context(), taker))
					require.NoError(t, client.IgnoreNotFound(mergePatch(vidraResourceOf(taker, "", ""), `{"spec":{"suspend":false}}`)))
				} else {
					setManifest(t, taker, configMap("other", taker))
				}
				await(t, func(c *assert.CollectT) { // it does not wait for the taker any more
					require.NotContains(c, condition(c, getVidraResource(c, giver), v1alpha1.ConditionReady).Message, taker)
				})
				if !back {
					awaitGone(t, obj)
					awaitReady(t, giver)
					return
				}
				setManifest(t, giver, both)
				awaitReady(t, giver)
				require.Equal(t, uid, requireInOrder(t, giver, obj).GetUID())
			})
		}
	}
}

// TestMoveToASuspendedOne has an object stay with a suspended VidraResource after the time of a move. The object is that VidraResource's then, and goes
// when it is deleted or its manifest drops the object.
func TestMoveToASuspendedOne(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		end    func(t *testing.T, taker string)
	}{
		"deleted": {"It is deleted before it has applied the object.", func(t *testing.T, taker string) {
			t.Helper()
			require.NoError(t, deleteVidraResource(t.Context(), taker))
			require.NoError(t, client.IgnoreNotFound(mergePatch(vidraResourceOf(taker, "", ""), `{"spec":{"suspend":false}}`)))
			awaitGone(t, vidraResourceOf(taker, "", ""))
		}},
		"dropped": {"Its manifest drops the object.", func(t *testing.T, taker string) {
			t.Helper()
			setManifest(t, taker, configMap("other", taker))
			require.NoError(t, mergePatch(vidraResourceOf(taker, "", ""), `{"spec":{"suspend":false}}`))
			awaitReady(t, taker)
		}},
		"without events": {"Its manifest drops the object, and its spec the events.", func(t *testing.T, taker string) {
			t.Helper()
			require.NoError(t, mergePatch(vidraResourceOf(taker, "", ""), `{"spec":{"destination":{"reconcileOnEvents":false}}}`))
			setManifest(t, taker, configMap("other", taker))
			require.NoError(t, mergePatch(vidraResourceOf(taker, "", ""), `{"spec":{"suspend":false}}`))
			awaitReady(t, taker)
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			giver, taker := ns+"-giver", ns+"-taker"
			newVidraResource(t, ns, manifests(configMap("stays", giver), configMap("page", "hello")), named(giver))
			awaitReady(t, giver)
			obj := declaredObject(t, ns, configMap("page", "hello"), "ConfigMap", "page")
			newVidraResource(t, ns, manifests(configMap("other", taker), configMap("page", "goodbye")), named(taker), func(vr *v1alpha1.VidraResource) { vr.Spec.Suspend = true })
			require.NoError(t, deleteVidraResource(t.Context(), giver))
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				live := get(c, obj)
				require.Equal(c, []string{v1alpha1.FieldManager(taker)}, appliedBy(live))
			}, 3*time.Minute, suite.Poll)
			tc.end(t, taker)
			await(t, func(c *assert.CollectT) {
				require.True(c, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopy())), tc.reason)
			})
		})
	}
}
