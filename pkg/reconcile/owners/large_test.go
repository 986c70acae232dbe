package owners

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
)

// large returns a VidraResource with a manifest of a source, whose parse takes much memory. It has the ConfigMap page.
func large(name, end string) *v1alpha1.VidraResource {
	vr := &v1alpha1.VidraResource{}
	vr.Name, vr.Spec.ManifestFrom = name, []v1alpha1.ManifestSource{{Kind: source.ConfigMap, Name: "parts", Namespace: "shop", Key: "a"}}
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Thing, metadata: {name: thing-%d}, a: [1, 2, 3]}\n", i)
	}
	vr.Spec.Manifest = text.String() + end
	return vr
}

// ofSources returns a Named that reads the manifests of large.
func ofSources() *Named {
	return &Named{Sources: &source.Watches{}, Parts: func(_ context.Context, vr *v1alpha1.VidraResource, _ func(source.Key) bool) ([]desired.Part, error) {
		return []desired.Part{desired.InlinePart(vr)}, nil
	}}
}

// allocated returns the bytes that a function allocates.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLargeManifestsOfOthers: a removal needs the manifests of all tenants. The same text is parsed once, also an invalid one and one of a source.
func TestLargeManifestsOfOthers(t *testing.T) { //nolint:paralleltest // it counts allocations
	id := fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	for name, end := range map[string]string{"Valid": "", "Invalid": "---\na: b: c\n"} {
		n, vr := ofSources(), large("other", end)
		names := func() { require.True(t, n.Names(t.Context(), vr, id), name) }
		first := allocated(names)
		require.Greater(t, first, uint64(2<<20), name)
		require.Less(t, allocated(names), first/10, name)
		vr.Generation++
		require.Greater(t, allocated(names), first/2, "%s: another generation may have another default namespace", name)
		n.Forget(vr.Name)
		require.Empty(t, maps.Collect(n.parsed.Range))
	}
}

// TestOneLargeManifestAtATime: large manifests of others are parsed one at a time, for a removal and for a conflict, as their parse takes much memory.
func TestOneLargeManifestAtATime(t *testing.T) {
	t.Parallel()
	id := fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	n, vr := ofSources(), large("other", "")
	small := vr.DeepCopy()
	small.Name, small.Spec.Manifest = "small", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\n"
	n.parsing.Lock()
	done := make(chan string, 3)
	go func() { n.Names(t.Context(), vr, id); done <- "removal" }()
	go func() { (&Finder{Named: n}).manifestOf(t.Context(), vr); done <- "conflict" }()
	require.True(t, n.Names(t.Context(), small, id), "a small one does not wait")
	select {
	case what := <-done:
		require.Fail(t, "not one at a time", what)
	case <-time.After(200 * time.Millisecond):
	}
	n.parsing.Unlock()
	require.ElementsMatch(t, []string{"removal", "conflict"}, []string{<-done, <-done})
}

// TestArtifactsWithoutAnswers: the artifacts of other tenants whose servers never answer take a removal a bounded time together, and the manifests that can be
// read count.
func TestArtifactsWithoutAnswers(t *testing.T) {
	t.Parallel()
	page := fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	for name, silent := range map[string]int{"Few": 8, "Many": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				inline := &v1alpha1.VidraResource{}
				inline.Name, inline.Spec.Manifest = "inline", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page, namespace: shop}\n"
				answering := inline.DeepCopy()
				answering.Name, answering.Spec.ManifestFrom = "answering", []v1alpha1.ManifestSource{{Kind: source.ConfigMap, Name: "parts", Namespace: "shop", Key: "a"}}
				all := []*v1alpha1.VidraResource{answering}
				for i := range silent {
					vr := answering.DeepCopy()
					vr.Name = fmt.Sprint("silent-", i)
					all = append(all, vr)
				}
				n := &Named{
					Sources: &source.Watches{},
					Preview: func(context.Context) ([]*v1alpha1.VidraResource, error) { return append(all, inline), nil },
					Parts: func(ctx context.Context, vr *v1alpha1.VidraResource, _ func(source.Key) bool) ([]desired.Part, error) {
						if vr == answering {
							return []desired.Part{desired.InlinePart(vr)}, nil
						}
						<-ctx.Done()
						return nil, ctx.Err()
					},
				}
				began := time.Now()
				receivers, err := n.Receivers(t.Context(), "me", "", []object.Identity{page}, began)
				require.NoError(t, err)
				require.LessOrEqual(t, time.Since(began), 40*time.Second)
				require.Len(t, receivers[page], silent+2, "an unreadable manifest may have the object")
				for i, receiver := range receivers[page] {
					require.Equal(t, i > 1, receiver.Unknown != nil, receiver.VidraResource.Name)
				}
			})
		})
	}
}

// TestPanicOfARead: a panic about the manifest of another VidraResource is one of the reconcile, which recovers, and not of the process.
func TestPanicOfARead(t *testing.T) {
	vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{ManifestFrom: []v1alpha1.ManifestSource{{Kind: source.ConfigMap, Name: "parts", Namespace: "shop", Key: "a"}}}}
	n := &Named{
		Sources: &source.Watches{},
		Preview: func(context.Context) ([]*v1alpha1.VidraResource, error) { return []*v1alpha1.VidraResource{vr}, nil },
		Parts: func(context.Context, *v1alpha1.VidraResource, func(source.Key) bool) ([]desired.Part, error) {
			panic("of a parser")
		},
	}
	require.Panics(t, func() {
		_, _ = n.Receivers(t.Context(), "me", "", []object.Identity{fixture.IDOf(fixture.ConfigMapKind, "shop", "page")}, time.Now())
	})
}

// TestSlowArtifacts: manifests that are read slowly count, also if all of them take longer than a few that never answer may, and one that is read after
// many without an answer.
func TestSlowArtifacts(t *testing.T) {
	t.Parallel()
	page := fixture.IDOf(fixture.ConfigMapKind, "shop", "page")
	for name, tc := range map[string]struct{ silent, slow int }{
		"Slow":        {0, 200},
		"AfterSilent": {100, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var all []*v1alpha1.VidraResource
				for i := range tc.silent + tc.slow {
					vr := &v1alpha1.VidraResource{}
					vr.Name, vr.Spec.ManifestFrom = fmt.Sprint("silent-", i), []v1alpha1.ManifestSource{{Kind: source.ConfigMap, Name: "parts", Namespace: "shop", Key: "a"}}
					if i >= tc.silent {
						vr.Name, vr.Spec.Manifest = fmt.Sprint("slow-", i), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: shop}\n"
					}
					all = append(all, vr)
				}
				n := &Named{
					Sources: &source.Watches{},
					Preview: func(context.Context) ([]*v1alpha1.VidraResource, error) { return all, nil },
					Parts: func(ctx context.Context, vr *v1alpha1.VidraResource, _ func(source.Key) bool) ([]desired.Part, error) {
						if vr.Spec.Manifest == "" {
							<-ctx.Done()
							return nil, ctx.Err()
						}
						select {
						case <-time.After(900 * time.Millisecond):
							return []desired.Part{desired.InlinePart(vr)}, nil
						case <-ctx.Done():
							return nil, ctx.Err()
						}
					},
				}
				receivers, err := n.Receivers(t.Context(), "me", "", []object.Identity{page}, time.Now())
				require.NoError(t, err)
				for _, receiver := range receivers[page] {
					require.Empty(t, receiver.VidraResource.Spec.Manifest, receiver.VidraResource.Name)
				}
				require.Len(t, receivers[page], tc.silent)
			})
		})
	}
}
