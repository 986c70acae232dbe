package source

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// listedKind is a kind whose objects a-0 to a-99 are in namespaces of their names.
type listedKind struct {
	Source
	forbidden bool
	// lists are the lists by their namespaces, and takes is how long each of them takes.
	lists map[string]int
	takes time.Duration
}

func (k *listedKind) Requests(namespace string) Requests {
	return Requests{List: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		k.lists[namespace]++
		select {
		case <-time.After(k.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if namespace == "" && k.forbidden {
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
		}
		list := &metav1.PartialObjectMetadataList{}
		for i := range 100 {
			one := metav1.PartialObjectMetadata{}
			one.Name, one.ResourceVersion = fmt.Sprintf("a-%d", i), fmt.Sprint(1000+i)
			one.Namespace = one.Name
			if namespace == "" || namespace == one.Namespace && opts.FieldSelector == "metadata.name="+one.Name {
				list.Items = append(list.Items, one)
			}
		}
		return list, nil
	}}
}

func (k *listedKind) Revision(obj any) string {
	one, _ := obj.(*metav1.PartialObjectMetadata)
	return one.ResourceVersion
}

// TestLatest: a removal asks for the sources of all other VidraResources: each source once, and many of a kind by one list.
func TestLatest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reason                string
		forbidden, everywhere bool
		sources, lists, whole int
	}{
		"Few":        {"Each is asked for, and the absent one.", false, true, fewSources - 1, fewSources, 0},
		"Many":       {"One list has all.", false, true, 100, 1, 1},
		"Forbidden":  {"The list is tried once.", true, true, 100, 102, 1},
		"Namespaces": {"Vidra asks for nothing outside of its namespaces.", false, false, 100, 101, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := &listedKind{forbidden: tt.forbidden, lists: map[string]int{}}
			latest := (&Watches{Kinds: Kinds{"ConfigMap": kind}, Everywhere: tt.everywhere}).Latest()
			for i := range tt.sources {
				name := fmt.Sprintf("a-%d", i)
				for range fewSources { // many VidraResources may have one source
					latest.Expect(t.Context(), Key{Kind: "ConfigMap", Namespace: name, Name: name})
				}
			}
			for range 2 {
				for i := range tt.sources {
					name := fmt.Sprintf("a-%d", i)
					revision, err := latest.Revision(t.Context(), Key{Kind: "ConfigMap", Namespace: name, Name: name})
					require.NoError(t, err)
					require.Equal(t, fmt.Sprint(1000+i), revision)
				}
			}
			absent, err := latest.Revision(t.Context(), Key{Kind: "ConfigMap", Namespace: "a-1", Name: "absent"})
			require.NoError(t, err)
			require.Empty(t, absent)
			lists := 0
			for _, n := range kind.lists {
				lists += n
			}
			require.Equal(t, tt.lists, lists, tt.reason)
			require.Equal(t, tt.whole, kind.lists[""], tt.reason)
		})
	}
}

// TestSlowList: a list of many sources takes longer than the read of a manifest may. It is no part of that time.
func TestSlowList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kind := &listedKind{lists: map[string]int{}, takes: 6 * time.Second}
		latest := (&Watches{Kinds: Kinds{"ConfigMap": kind}, Everywhere: true}).Latest()
		for i := range 100 {
			name := fmt.Sprintf("a-%d", i)
			key := Key{Kind: "ConfigMap", Namespace: name, Name: name}
			latest.Expect(t.Context(), key)
			if i < fewSources {
				continue
			}
			read, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			revision, err := latest.Revision(read, key)
			cancel()
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(1000+i), revision)
		}
	})
}
