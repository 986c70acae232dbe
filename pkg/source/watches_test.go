package source

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/vidra-operator/vidra/pkg/trigger"
)

// listOf is a Source whose objects are the ConfigMaps of a list.
type listOf struct {
	Source

	items []corev1.ConfigMap
}

func (l listOf) Revision(obj any) string { return obj.(*corev1.ConfigMap).ResourceVersion } //nolint:forcetypeassert // the informer's type

func (l listOf) Requests(string) Requests {
	return Requests{
		List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: l.items}, nil
		},
		Watch: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			if opts.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // as API servers that do not stream lists
			}
			return watch.NewFake(), nil
		},
		Object: &corev1.ConfigMap{},
	}
}

// TestWatchesTellTheBeginning: a reconcile that reads a source before its watch begins may miss a change. So Changed is called once Revision
// knows the state in the store, of absent sources, too.
func TestWatchesTellTheBeginning(t *testing.T) {
	for i := range 200 {
		key, want := Key{"ConfigMap", "ns", fmt.Sprint("page", i)}, ""
		source := listOf{}
		if i%2 == 0 {
			want = "1"
			source.items = []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: want}}}
		}
		told := make(chan string, 10)
		w := &Watches{Kinds: Kinds{key.Kind: source}}
		w.Changed = func(...trigger.Owner) {
			revision, known := w.Revision(key)
			told <- fmt.Sprint(revision, known)
		}
		owner := trigger.Owner{Name: "page"}
		w.Sync(owner, slices.Values([]Key{key}))
		select {
		case got := <-told:
			require.Equal(t, want+"true", got, "Revision knows the source when Changed is called")
		case <-time.After(10 * time.Second):
			require.Fail(t, "Changed was not called")
		}
		w.Release(owner)
	}
}

// TestRepeatedFailures: a watch that fails again and again has its VidraResources reconciled once, whatever the local port of the connection was.
func TestRepeatedFailures(t *testing.T) {
	one := &watched{}
	cut := func(port int) error {
		return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: read: connection reset by peer", port)
	}
	require.True(t, one.note(cut(41000)))
	require.False(t, one.note(cut(41001)))
	require.True(t, one.note(apierrors.NewServiceUnavailable("later")), "it fails otherwise")
	require.True(t, one.note(nil))
	require.False(t, one.note(nil))
}
