package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// job is a Job with fields of its spec. With completions 0 it succeeds at once, and with 1 it runs, because no kubelet
// does.
func job(name, fields string, annotations ...string) string {
	head := "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: " + name + "\n"
	for i, annotation := range annotations {
		if i == 0 {
			head += "  annotations:\n"
		}
		head += "    " + annotation + "\n"
	}
	return head + "spec:\n  " + fields + `
  template:
    spec:
      restartPolicy: Never
      containers: [{name: migrate, image: example.com/migrate}]
`
}

// awaitState waits until an object is in the inventory in a state, and returns the VidraResource.
func awaitState(t *testing.T, owner, name string, state v1alpha1.ObjectState) (v *v1alpha1.VidraResource) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		v = getVidraResource(c, owner)
		found := false
		for _, e := range v.Status.ManagedResources {
			if e.Name == name {
				found = true
				require.Equal(c, state, e.State)
			}
		}
		require.True(c, found)
	})
	return v
}

// jobUID waits until a Job exists that is another one than before, and returns its UID.
func jobUID(t *testing.T, ns, name, before string) (uid string) {
	t.Helper()
	await(t, func(c *assert.CollectT) {
		live := &batchv1.Job{}
		require.NoError(c, admin.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, live))
		require.NotEqual(c, before, string(live.UID))
		require.Nil(c, live.DeletionTimestamp)
		uid = string(live.UID)
	})
	return uid
}

func deleteJob(t *testing.T, ns, name string) {
	t.Helper()
	require.NoError(t, client.IgnoreNotFound(admin.Delete(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}},
		client.PropagationPolicy(metav1.DeletePropagationBackground))))
}

// TestCompletedJobRunsOnce has the TTL controller of Kubernetes remove a Job that succeeded. Vidra does not create it
// again until its configuration changes.
func TestCompletedJobRunsOnce(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	mark := auditMark(t)
	newVidraResource(t, ns, manifests(job("migrate", "completions: 0\n  ttlSecondsAfterFinished: 0"), configMap("page", "hello")))
	v := awaitState(t, ns, "migrate", v1alpha1.ObjectCompleted)
	require.True(t, entry(t, v, "Job", "migrate").Succeeded)
	awaitReady(t, ns)
	await(t, func(c *assert.CollectT) {
		all := &eventsv1.EventList{}
		require.NoError(c, admin.List(t.Context(), all, client.InNamespace("default")))
		n := 0
		for _, e := range all.Items {
			if e.Regarding.Name == ns && e.Reason == "Completed" {
				require.Contains(c, e.Note, "Job "+ns+"/migrate")
				n++
			}
		}
		require.Equal(c, 1, n)
	})

	// Neither a request nor a resync has it run again.
	require.NoError(t, admin.Patch(t.Context(), &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.ReconcileRequestedAtAnnotation))))
	await(t, func(c *assert.CollectT) {
		require.Equal(c, "now", getVidraResource(c, ns).Status.LastHandledReconcileAt)
	})
	created := func() requests {
		return operatorSince(t, mark).On("jobs", ns, "migrate").Only(func(r request) bool { return r.Code == http.StatusCreated })
	}
	require.Len(t, created(), 1)
	tree, said, _ := commandLine{binary: buildVidra(t), kubeconfig: env.KubeconfigPath, name: "tree"}.run(t, ns)
	require.Regexp(t, `Job/migrate\s+\S+\s+Completed`, tree, said)

	setManifest(t, ns, manifests(job("migrate", "completions: 0\n  ttlSecondsAfterFinished: 0", "run: again"), configMap("page", "hello")))
	await(t, func(c *assert.CollectT) { require.Len(c, created(), 2) }, "its configuration changed")
	awaitState(t, ns, "migrate", v1alpha1.ObjectCompleted)

	setManifest(t, ns, configMap("page", "hello"))
	await(t, func(c *assert.CollectT) { require.Len(c, getVidraResource(c, ns).Status.ManagedResources, 1) }, "it left the manifest")
	require.Len(t, created(), 2)
}

// TestDeletedJobs: a deletion of an object that had not succeeded, or that no controller removes, is an edit.
func TestDeletedJobs(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{
		"running":  "completions: 1\n  ttlSecondsAfterFinished: 3600",
		"byhand":   "completions: 0",
		"disabled": "completions: 0\n  ttlSecondsAfterFinished: 3600",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, job(name, fields, map[bool]string{true: v1alpha1.RunOnceAnnotation + ": 'false'", false: "a: b"}[name == "disabled"]))
			awaitReady(t, ns)
			before := jobUID(t, ns, name, "")
			deleteJob(t, ns, name)
			jobUID(t, ns, name, before)
			awaitState(t, ns, name, v1alpha1.ObjectApplied)
		})
	}
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, job("failed", "activeDeadlineSeconds: 1\n  backoffLimit: 0\n  ttlSecondsAfterFinished: 0"))
		before := jobUID(t, ns, "failed", "")
		jobUID(t, ns, "failed", before)
	})
	t.Run("annotation", func(t *testing.T) {
		t.Parallel()
		ns := newNamespace(t)
		newVidraResource(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: page\n  annotations: {"+v1alpha1.RunOnceAnnotation+": 'true'}\ndata: {greeting: hello}\n")
		awaitReady(t, ns)
		page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "page"}}
		require.NoError(t, admin.Delete(t.Context(), page))
		awaitState(t, ns, "page", v1alpha1.ObjectCompleted)
		require.True(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(page), page)))
		awaitReady(t, ns)
	})
}

// TestJobsThatEndWhileVidraIsDown stops Vidra, and deletes Jobs: one that had succeeded, one whose end Vidra has not
// seen, and one without a time to live, which alone is created again.
func TestJobsThatEndWhileVidraIsDown(t *testing.T) {
	ns := newNamespace(t)
	newVidraResource(t, ns, manifests(
		job("succeeded", "completions: 0\n  ttlSecondsAfterFinished: 3600"),
		job("unseen", "completions: 1\n  ttlSecondsAfterFinished: 3600"),
		job("kept", "completions: 0")))
	awaitReady(t, ns)
	await(t, func(c *assert.CollectT) {
		require.True(c, entry(c, getVidraResource(c, ns), "Job", "succeeded").Succeeded)
	})
	stopOperator(t)
	kept := jobUID(t, ns, "kept", "")
	for _, name := range []string{"succeeded", "unseen", "kept"} {
		deleteJob(t, ns, name)
		awaitGone(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	mark := auditMark(t)
	startAnother(t)
	jobUID(t, ns, "kept", kept)
	awaitState(t, ns, "succeeded", v1alpha1.ObjectCompleted)
	awaitState(t, ns, "unseen", v1alpha1.ObjectCompleted)
	awaitReady(t, ns)
	awaitSilence(t)
	for _, name := range []string{"succeeded", "unseen"} {
		require.Empty(t, operatorSince(t, mark).On("jobs", ns, name).Writes(), fmt.Sprint(name))
	}
}

// TestCompletedKinds deletes objects of a kind that Vidra does not know, as their controllers do: those with a time to live that succeeded are completed,
// others are created again.
func TestCompletedKinds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, spec, status string
		completed            bool
	}{
		"Phase":     {"A phase and a time to live after the end.", "ttlSecondsAfterFinished: 5", `{"phase":"Succeeded"}`, true},
		"Strategy":  {"As an Argo Workflow has it.", "ttlStrategy: {secondsAfterSuccess: 5}", `{"phase":"Succeeded"}`, true},
		"Condition": {"A condition is its end.", "ttlSecondsAfterFinished: 5", `{"conditions":[{"type":"Complete","status":"True"}]}`, true},
		"Failed":    {"It has failed.", "ttlSecondsAfterFinished: 5", `{"phase":"Failed"}`, false},
		"NoTime":    {"No controller removes it.", "size: 1", `{"phase":"Succeeded"}`, false},
	}
	crd, _ := newKind(t)
	require.NoError(t, admin.Create(t.Context(), crd.DeepCopy()))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := newNamespace(t)
			newVidraResource(t, ns, "apiVersion: "+crd.Spec.Group+"/v1\nkind: Thing\nmetadata:\n  name: thing\nspec:\n  "+tc.spec+"\n")
			cluster.AwaitReadyFor(t, 2*patience, ns)
			thing := thingIn(crd, ns)
			uid := get(t, thing).GetUID()
			require.NoError(t, mergePatch(thing.DeepCopy(), `{"status":%s}`, tc.status))
			if tc.completed {
				await(t, func(c *assert.CollectT) {
					require.True(c, entry(c, getVidraResource(c, ns), "Thing", "thing").Succeeded)
				})
			}
			require.NoError(t, admin.Delete(t.Context(), thing.DeepCopy()))
			if !tc.completed {
				await(t, func(c *assert.CollectT) { require.NotEqual(c, uid, get(c, thing).GetUID(), tc.reason) })
				awaitState(t, ns, "thing", v1alpha1.ObjectApplied)
				return
			}
			awaitState(t, ns, "thing", v1alpha1.ObjectCompleted)
			require.True(t, apierrors.IsNotFound(admin.Get(t.Context(), client.ObjectKeyFromObject(thing), thing)), tc.reason)
			awaitReady(t, ns)
		})
	}
}
