package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestF20Burst sends 100 edits to 20 objects as fast as the API server takes them,
// so that edits arrive while others are being reverted. In the end everything is
// as the manifest says, at no more than one PATCH for each edit.
func TestF20Burst(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		// deletes says whether an edit is a deletion.
		deletes func(object, round int) bool
		// effective is how many edits find their object for certain.
		effective int
	}{
		"edits": {
			reason:    "every edit finds its object, and half of the objects are deleted at last",
			deletes:   func(object, round int) bool { return object%2 == 0 && round == rounds-1 },
			effective: 100,
		},
		"deletions in between": {
			reason:    "edits arrive while objects are being created again",
			deletes:   func(object, round int) bool { return round == object%rounds },
			effective: 20,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, sets(5))
			awaitReady(t, ns)
			objs := declared(t, ns, sets(5))
			require.Len(t, objs, 20)

			mark := auditMark(t)
			start := time.Now()
			found := burst(t, objs, tt.deletes)
			took := time.Since(start)
			require.GreaterOrEqual(t, found, tt.effective, tt.reason)

			awaitInOrder(t, ns, objs...)
			await(t, func(c *assert.CollectT) {
				v := getVidraResource(c, ns)
				require.Equal(c, metav1.ConditionTrue, condition(c, v, v1alpha1.ConditionReady).Status)
				require.Equal(c, metav1.ConditionFalse, condition(c, v, v1alpha1.ConditionDrifted).Status)
				require.Len(c, v.Status.ManagedResources, len(objs))
				for _, obj := range objs {
					require.Equal(c, string(get(c, obj).GetUID()), entry(c, v, obj.GetKind(), obj.GetName()).UID)
				}
			}, "the inventory knows the objects that were created again")

			requests := operatorSince(t, mark).ObjectsIn(ns)
			require.LessOrEqual(t, len(requests), found, "%s", requests)
			t.Logf("%d edits in %s, %d found their object; reverted with %d requests",
				len(objs)*rounds, took.Round(time.Millisecond), found, len(requests))
		})
	}
}

// TestEditTheMomentItIsPutBack edits an object again as soon as a watch shows that
// the edit before was reverted: often before Vidra has the answer to its PATCH.
// An edit that is taken for the echo of that PATCH would be missed. It goes on
// for so long that the status is written in between.
func TestEditTheMomentItIsPutBack(t *testing.T) {
	t.Parallel()
	const lasting = 7 * time.Second
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"))
	awaitReady(t, ns)
	page := declared(t, ns, configMap("page", "hello"))[0]
	watching, err := client.NewWithWatch(env.Config, client.Options{})
	require.NoError(t, err)
	watch, err := watching.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(ns),
		client.MatchingFields{"metadata.name": page.GetName()})
	require.NoError(t, err)
	defer watch.Stop()

	late := time.After(2 * patience)
	see := func(greeting string) {
		t.Helper()
		for {
			select {
			case event, open := <-watch.ResultChan():
				require.True(t, open)
				if live, ok := event.Object.(*corev1.ConfigMap); ok && live.Data["greeting"] == greeting {
					return
				}
			case <-late:
				require.Fail(t, "missed", "%q does not come", greeting)
			}
		}
	}

	mark, start := auditMark(t), time.Now()
	edits := 0
	for ; time.Since(start) < lasting; edits++ {
		changed := fmt.Sprintf("changed %d", edits)
		require.NoError(t, mergePatch(page, `{"data":{"greeting":%q}}`, changed))
		see(changed)
		see("hello")
	}
	requireInOrder(t, ns, page)
	var sent requests
	await(t, func(c *assert.CollectT) {
		sent = operatorSince(t, mark).ObjectsIn(ns)
		require.GreaterOrEqual(c, len(sent), edits, "%s", sent)
	})
	require.LessOrEqual(t, len(sent), edits+2, "one request for each edit, but for what a look at all objects finds at the same time: %s", sent)
	t.Logf("%d edits reverted in %s", edits, time.Since(start).Round(time.Millisecond))
}

// rounds is how many edits each object gets.
const rounds = 5

// sets is a manifest with the four objects of web n times.
func sets(n int) string {
	var documents []string
	for i := range n {
		documents = append(documents, strings.NewReplacer(
			"name: page\n", fmt.Sprintf("name: page-%d\n", i),
			"name: login\n", fmt.Sprintf("name: login-%d\n", i),
			"metadata:\n  name: web\n", fmt.Sprintf("metadata:\n  name: web-%d\n", i),
		).Replace(web))
	}
	return manifests(documents...)
}

// burst edits all objects at the same time, each some times in a row, and counts
// the edits that found their object.
func burst(t *testing.T, objs []*unstructured.Unstructured, deletes func(object, round int) bool) int {
	t.Helper()
	var found atomic.Int64
	var group errgroup.Group
	for i, obj := range objs {
		group.Go(func() error {
			for round := range rounds {
				change := burstEdit
				if deletes(i, round) {
					change = deleteEdit
				}
				err := change(obj, round)
				if err == nil {
					found.Add(1)
				} else if !apierrors.IsNotFound(err) {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	return int(found.Load())
}

// burstEdit changes an object of the manifest web.
func burstEdit(obj *unstructured.Unstructured, round int) error {
	switch obj.GetKind() {
	case "ConfigMap":
		return mergePatch(obj, `{"data":{"greeting":"changed %d"}}`, round)
	case "Secret":
		return mergePatch(obj, `{"stringData":{"password":"changed %d"}}`, round)
	case "Service":
		return mergePatch(obj, `{"spec":{"selector":{"app":"changed-%d"}}}`, round)
	default:
		return mergePatch(obj, `{"spec":{"replicas":%d}}`, 2+round)
	}
}

// deleteEdit deletes an object.
func deleteEdit(obj *unstructured.Unstructured, _ int) error {
	return admin.Delete(context.Background(), obj.DeepCopy())
}
