package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// historyOf is the history of an object in the status of a VidraResource.
func historyOf(status v1alpha1.VidraResourceStatus, name string) (all []v1alpha1.HistoryEntry) {
	for _, e := range status.History {
		if e.Object.Name == name {
			all = append(all, e)
		}
	}
	return all
}

// TestHistory: the status has each edit and what became of it, in few writes, and no value of a Secret.
func TestHistory(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	const secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\nstringData:\n  password: hunter2\n"
	newVidraResource(t, ns, configMap("page", "hello")+"---\n"+secret)
	vr := awaitReady(t, ns)
	require.Empty(t, vr.Status.History, "nothing was edited")
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "login"}}
	objects := declared(t, ns, configMap("page", "hello"))
	mark := auditMark(t)
	const edits = 3
	for i := range edits {
		require.NoError(t, edit(page, types.MergePatchType, fmt.Sprintf(`{"data":{"greeting":"bye %d"}}`, i%2), client.FieldOwner("tool")))
		awaitInOrder(t, ns, objects...)
	}
	require.NoError(t, admin.Delete(t.Context(), page.DeepCopy()))
	awaitInOrder(t, ns, objects...)
	require.NoError(t, mergePatch(login, `{"stringData":{"password":"swordfish"}}`))
	await(t, func(c *assert.CollectT) {
		vr := getVidraResource(c, ns)
		of := historyOf(vr.Status, "page")
		require.Len(c, of, 3, "%v", of)
		deleted, again, once := of[0], of[1], of[2]
		require.Equal(c, "created it again after it had been deleted", deleted.Message)
		require.Equal(c, `reverted data.greeting to "hello"; "tool" had set it to "bye 0"`, again.Message)
		require.EqualValues(c, 2, again.Count)
		require.Equal(c, "tool", again.Manager)
		require.Equal(c, []string{"data.greeting"}, again.Fields)
		require.Contains(c, once.Message, "bye 1")
		of = historyOf(vr.Status, "login")
		require.Len(c, of, 1)
		require.Equal(c, []string{"data.password"}, of[0].Fields)
		for _, value := range []string{"hunter2", "swordfish", "aHVudGVyMg", "c3dvcmRmaXNo"} {
			require.NotContains(c, fmt.Sprint(vr.Status), value)
		}
	})
	writes := operatorSince(t, mark).On("vidraresources", "", ns).Only(verbIs("patch"))
	require.LessOrEqual(t, len(writes), 3, "the entries wait for each other: %s", writes)
}

// TestHistoryOfDriftThatStays: an edit that is not reverted is in the history, too.
func TestHistoryOfDriftThatStays(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	newVidraResource(t, ns, configMap("page", "hello"), func(v *v1alpha1.VidraResource) {
		v.Spec.Drift = &v1alpha1.DriftPolicy{Mode: v1alpha1.DriftWarn}
	})
	awaitReady(t, ns)
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
	require.NoError(t, mergePatch(page, `{"data":{"greeting":"bye"}}`))
	await(t, func(c *assert.CollectT) {
		of := historyOf(getVidraResource(c, ns).Status, "page")
		require.Len(c, of, 1)
		require.Equal(c, "DriftDetected", of[0].Reason)
		require.Contains(c, of[0].Message, `data.greeting is "bye" and should be "hello"`)
	})
}
