package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/apply"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
	"github.com/vidra-operator/vidra/pkg/reconcile/seal"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// remove deletes the VidraResource, without its finalizer.
func (l *lab) remove(t *testing.T) {
	t.Helper()
	vr := l.get(t)
	vr.Finalizers = nil
	require.NoError(t, l.client.Update(t.Context(), vr))
	require.NoError(t, l.client.Delete(t.Context(), vr))
}

// TestNoReplacementWithoutAVidraResource: the status that announces a deletion was not written.
func TestNoReplacementWithoutAVidraResource(t *testing.T) {
	l := newLab(t, colors("a"))
	l.mustPass(t)
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	o := p.state.plan.Objects.Manifest[0]
	live := &unstructured.Unstructured{}
	live.SetUID("uid-a")
	live.SetName("a")
	c := l.Dynamic().(*dynamicfake.FakeDynamicClient)
	deleted := 0
	c.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) { deleted++; return true, nil, nil })
	p.applier.Client = c
	l.remove(t)
	r := apply.Result{Task: plan.Task{Object: o.Desired, Known: o}}
	r.Recreation.Delete = live
	all := []apply.Result{r}
	p.replaceAll(t.Context(), all)
	require.Zero(t, deleted)
	require.Error(t, all[0].Err)
}

// TestNoReplacementForAFormerSpec: a user changes the VidraResource during the write of the status that announces a deletion.
func TestNoReplacementForAFormerSpec(t *testing.T) {
	l := newLab(t, colors("a"))
	l.mustPass(t)
	p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	o := p.state.plan.Objects.Manifest[0]
	live := &unstructured.Unstructured{}
	live.SetUID("uid-a")
	live.SetName("a")
	c := l.Dynamic().(*dynamicfake.FakeDynamicClient)
	deleted := 0
	c.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) { deleted++; return true, nil, nil })
	p.applier.Client = c
	l.writing = func() {
		l.writing = nil
		vr := l.get(t)
		vr.Spec.Suspend, vr.Generation = true, vr.Generation+1
		require.NoError(t, l.client.Update(t.Context(), vr))
	}
	r := apply.Result{Task: plan.Task{Object: o.Desired, Known: o}}
	r.Recreation.Delete = live
	all := []apply.Result{r}
	p.replaceAll(t.Context(), all)
	require.Zero(t, deleted)
	require.ErrorContains(t, all[0].Err, "it is not deleted now")
	require.False(t, o.DeletedByVidra(), "an edit of it is one")
}

// TestReplacementThatWasNotSent: with the mode Warn, an object stays as a user leaves it, although a process before, or a deletion that was refused, has
// announced its replacement for another configuration.
func TestReplacementThatWasNotSent(t *testing.T) {
	l := newLab(t, colors("a"))
	l.kept = map[string]*unstructured.Unstructured{}
	l.mustPass(t)
	vr := l.get(t)
	vr.Spec.Drift.Mode, vr.Generation = v1alpha1.DriftWarn, vr.Generation+1
	require.NoError(t, l.client.Update(t.Context(), vr))
	vr.Status.ManagedResources[0].Recreated = &v1alpha1.RecreatedStatus{Configuration: "another", UID: vr.Status.ManagedResources[0].UID}
	require.NoError(t, l.client.Status().Update(t.Context(), vr))
	l.restart()
	l.mustPass(t)
	require.Nil(t, l.get(t).Status.ManagedResources[0].Recreated, "the object exists")
	clear(l.kept)
	require.NotContains(t, l.mustPass(t, "a"), "a", "a user has deleted it")
}

// TestStatusOfAnotherVidraResource: a VidraResource was replaced by another one of its name meanwhile.
func TestStatusOfAnotherVidraResource(t *testing.T) {
	l := newLab(t, colors("a"))
	l.mustPass(t) // it has written the status
	p := l.newPass(faulty, l.get(t), trigger.Causes{All: true}, seal.Keys{seal.NewKey()})
	defer p.state.lane.leave()
	l.remove(t)
	other := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: colors("b")}}
	other.Name, other.UID, other.Generation = faulty.Name, "other", 1
	require.NoError(t, l.client.Create(t.Context(), other))
	p.state.plan.Objects.Manifest[0].Entry.State = v1alpha1.ObjectFailed // the inventory changes
	err := p.writeInventory(t.Context())
	require.Equal(t, "other", string(l.get(t).UID))
	require.Empty(t, l.get(t).Status.ManagedResources)
	require.Error(t, err)
}

// failing is a reader whose first reads fail.
type failing struct {
	client.Reader
	fails int
}

func (f *failing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if f.fails--; f.fails >= 0 {
		return errors.New("no answer")
	}
	return f.Reader.Get(ctx, key, obj, opts...)
}

// TestWithdrawalIsTriedAgain: the objects of a VidraResource that is gone are removed after failed requests, too.
func TestWithdrawalIsTriedAgain(t *testing.T) {
	before := withdrawalBackoff.Duration
	withdrawalBackoff.Duration = time.Millisecond
	defer func() { withdrawalBackoff.Duration = before }()
	cases := map[string]struct {
		reason                string
		reads, deletes, wants int
		err                   string
	}{
		"At once":          {"Nothing fails.", 0, 0, 1, ""},
		"Reads":            {"The API server does not answer for a while.", 3, 0, 1, ""},
		"Deletions":        {"A deletion is refused for a while.", 0, 3, 4, ""},
		"Reads for long":   {"The objects are named.", 100, 0, 0, "objects of a VidraResource that is gone stay: [ConfigMap default/a]: read VidraResource faulty: no answer"},
		"Deletions for so": {"It ends.", 0, 100, withdrawalBackoff.Steps, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, colors("a"))
			l.kept = map[string]*unstructured.Unstructured{}
			l.mustPass(t)
			p := l.newPass(faulty, l.get(t), trigger.Causes{}, seal.Keys{seal.NewKey()})
			defer p.state.lane.leave()
			require.Nil(t, p.connect(t.Context()))
			c := p.applier.Client.(*dynamicfake.FakeDynamicClient)
			deletes := 0
			c.PrependReactor("delete", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if deletes++; deletes <= tc.deletes {
					return true, nil, errors.New("denied")
				}
				delete(l.kept, a.(clienttesting.DeleteAction).GetName())
				return true, nil, nil
			})
			l.remove(t)
			l.Clients.API = &failing{l.client, tc.reads}
			l.related.named.Cache, l.related.named.API, l.related.named.Metadata, l.related.named.Sources, l.related.named.Parts = l.client, l.client, l.Clients.Metadata, &l.Watching.sources, l.partsOf
			l.definitions.last.Store(ownDefinition, definitionRead{time.Now().Add(time.Hour), &metav1.PartialObjectMetadata{}}) // it is not being deleted
			p.finalizer.created = []object.Identity{p.state.plan.Objects.Manifest[0].ID}
			err := p.withdraw(t.Context())
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tc.err)
			}
			require.Equal(t, tc.wants, deletes, tc.reason)
		})
	}
}
