package owners

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/source"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// TestCoOwners says which of the VidraResources that the marks on an object name own it.
func TestCoOwners(t *testing.T) {
	t.Parallel()
	const remote = "https://remote:6443"
	long := "a-" + strings.Repeat("long-", 40) + "name"
	type edit = func(vr *v1alpha1.VidraResource)
	holds := func(vr *v1alpha1.VidraResource) {
		vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page"}}
	}
	none := func(*v1alpha1.VidraResource) {}
	applied := func(name string) *unstructured.Unstructured {
		return fixture.LiveConfigMap("a", nil, "vidra/web", v1alpha1.FieldManager(name))
	}
	annotated := func(name string) *unstructured.Unstructured {
		return fixture.LiveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotationKey(name): name}, "vidra/web")
	}
	both := func(name string) *unstructured.Unstructured {
		return fixture.LiveConfigMap("a", map[string]string{v1alpha1.OwnerAnnotationKey(name): name}, v1alpha1.FieldManager(name))
	}
	with := func(edits ...edit) edit {
		return func(vr *v1alpha1.VidraResource) {
			for _, e := range edits {
				e(vr)
			}
		}
	}
	goes := func(vr *v1alpha1.VidraResource) { now := metav1.Now(); vr.DeletionTimestamp = &now }
	uid := func(uid string) edit {
		return func(vr *v1alpha1.VidraResource) { vr.Status.ManagedResources[0].UID = uid }
	}
	at := func(server string) edit {
		return func(vr *v1alpha1.VidraResource) { vr.Spec.Destination.Server = server }
	}
	restored := func(manifest string) edit {
		return func(vr *v1alpha1.VidraResource) { vr.Status.ObservedGeneration, vr.Spec.Manifest = 0, manifest }
	}
	updated := applied("api")
	entries := updated.GetManagedFields()
	entries[1].Operation = metav1.ManagedFieldsOperationUpdate
	updated.SetManagedFields(entries)
	cases := map[string]struct {
		reason string
		live   *unstructured.Unstructured
		name   string
		vr     edit // nil: there is none
		at     string
		claims bool
		want   bool
	}{
		"Holds it":               {"Its inventory lists it.", applied("api"), "api", holds, "", false, true},
		"Holds it by annotation": {"It will take it over, or remove it.", annotated("api"), "api", holds, "", false, true},
		"Does not exist":         {"The manager is forged.", applied("api"), "api", nil, "", false, false},
		"Annotation of nobody":   {"The annotation is forged.", annotated("api"), "api", nil, "", false, false},
		"Does not hold it":       {"The manager is forged.", applied("api"), "api", none, "", false, false},
		"Copied annotation":      {"It was made from a copy.", annotated("api"), "api", none, "", false, false},
		"Is about to apply it":   {"Its status may not be in the cache yet.", applied("api"), "api", none, "", true, true},
		"Holds the same name":    {"An object of another namespace is another one.", applied("api"), "api", with(holds, func(vr *v1alpha1.VidraResource) { vr.Status.ManagedResources[0].Namespace = "bank" }), "", false, false},
		"Holds it in a group": {"The API server serves one object in several groups.", applied("api"), "api", with(holds, func(vr *v1alpha1.VidraResource) {
			vr.Status.ManagedResources[0].APIVersion = "x/v1"
			vr.Status.ManagedResources[0].UID = "a"
		}), "", false, true},
		"Goes":                     {"It has still to release its fields.", applied("api"), "api", with(holds, goes), "", false, true},
		"Goes without a field":     {"It lets go of all that it has.", annotated("api"), "api", with(holds, goes), "", false, false},
		"At another cluster":       {"What it has is elsewhere.", applied("api"), "api", with(holds, uid("b"), at(remote)), "", false, false},
		"The object is elsewhere":  {"What it has is here.", applied("api"), "api", with(holds, uid("b")), remote, false, false},
		"At another URL":           {"Two URLs of one cluster: the UID shows it.", applied("api"), "api", with(holds, uid("a"), at(remote)), "", false, true},
		"At another URL, new":      {"The apply may be under way at another URL of the cluster.", applied("api"), "api", with(holds, at(remote)), "", false, true},
		"Both at another cluster":  {"A URL may be written in several ways.", applied("api"), "api", with(holds, at("https://REMOTE:6443/")), remote, false, true},
		"At no cluster":            {"It has nothing.", applied("api"), "api", with(holds, uid("b"), at("://")), "", false, false},
		"At the local one by name": {"That is the local one.", applied("api"), "api", with(holds, at(v1alpha1.LocalServer)), "", false, true},
		"Was restored":             {"It has not been read, and its manifest names the object.", annotated("api"), "api", restored("name: page"), "", false, true},
		"Was restored for another": {"Its manifest does not name the object.", applied("api"), "api", restored("name: other"), "", false, false},
		"By an update":             {"Vidra owns nothing by updates.", updated, "api", holds, "", false, false},
		"Long name":                {"The manager has a part of the name, the annotation all of it.", both(long), long, holds, "", false, true},
		"Long name, no annotation": {"The claim has all of the name.", applied(long), long, none, "", true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{}}
			if tc.vr != nil {
				vr := &v1alpha1.VidraResource{Status: v1alpha1.VidraResourceStatus{ObservedGeneration: 1}}
				vr.Name = tc.name
				tc.vr(vr)
				reader.All[tc.name] = vr
			}
			key := trigger.ObjectKey{Cluster: tc.at, Namespace: "shop", Name: "page"}
			a := &Finder{Claimant: Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}, VidraResources: reader, Index: trigger.NewIndex()}
			if tc.claims {
				a.Index.Begin(trigger.Owner{Name: tc.name}, key, v1alpha1.FieldManager(tc.name))
			}
			owners, err := a.CoOwners(t.Context(), key, tc.live)
			require.NoError(t, err)
			if !tc.want {
				require.Empty(t, owners, tc.reason)
				return
			}
			require.Len(t, owners, 1, tc.reason)
			require.Equal(t, tc.name, owners[0].Name, tc.reason)
			require.Equal(t, v1alpha1.FieldManager(tc.name), owners[0].Manager, tc.reason)
		})
	}
}

// TestCoOwnersOwn: what is only a copy of an object of a VidraResource is not its own.
func TestCoOwnersOwn(t *testing.T) {
	t.Parallel()
	annotated := map[string]string{v1alpha1.OwnerAnnotationKey("api"): "api"}
	copied := fixture.SetBy(fixture.LiveConfigMap("a", annotated), "kubectl-create")
	cases := map[string]struct {
		reason string
		live   *unstructured.Unstructured
		// uid is that of the inventory; restored reports that there is none.
		uid      string
		restored bool
		want     bool
	}{
		"Applied":             {"It applied the object.", fixture.LiveConfigMap("a", nil, "vidra/api"), "", false, true},
		"Lists the UID":       {"It applied the object, whatever is left of its marks.", copied, "a", false, true},
		"Cleared":             {"A user cleared managedFields.", fixture.LiveConfigMap("a", annotated), "a", false, true},
		"Copied":              {"A user set the annotation.", copied, "", false, false},
		"Lists another":       {"A user deleted the object, and made another one from a copy.", copied, "b", false, false},
		"Cleared copy":        {"The UID shows that it is another object.", fixture.LiveConfigMap("a", annotated), "b", false, false},
		"Never read":          {"Its manifest names the object, and it has applied nothing.", copied, "", true, false},
		"Never read, cleared": {"A user copied the annotation, and cleared managedFields.", fixture.LiveConfigMap("a", annotated), "", true, false},
		"Restored with marks": {"managedFields were restored with the object.", fixture.LiveConfigMap("a", annotated, "vidra/api"), "", true, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.Name = "api"
			if tc.restored {
				vr.Spec.Manifest = "name: page"
			} else {
				vr.Status.ObservedGeneration = 1
				vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page", UID: tc.uid}}
			}
			a := &Finder{
				Claimant: Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}, Index: trigger.NewIndex(),
				VidraResources: &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"api": vr}},
			}
			owners, err := a.CoOwners(t.Context(), trigger.ObjectKey{Namespace: "shop", Name: "page"}, tc.live)
			require.NoError(t, err)
			require.Len(t, owners, 1, "it counts where an object is removed")
			require.Equal(t, tc.want, owners[0].Owns, tc.reason)
			require.Equal(t, tc.uid == "a", owners[0].Recorded, "an object that has the marks alone may be one that it wants")
		})
	}
}

// TestCoOwnersWithoutMarks counts the VidraResources that are known to have applied an
// object from which somebody took their marks.
func TestCoOwnersWithoutMarks(t *testing.T) {
	t.Parallel()
	key := trigger.ObjectKey{Namespace: "shop", Name: "page"}
	api := trigger.Owner{Name: "api"}
	applied := func(x *trigger.Index, uid types.UID) {
		x.Load(api, map[trigger.ObjectKey]trigger.Applied{key: {Manager: "vidra/api", UID: uid}})
	}
	cases := map[string]struct {
		reason string
		index  func(x *trigger.Index)
		want   int
	}{
		"None":           {"Nobody has applied it.", func(*trigger.Index) {}, 0},
		"Applied":        {"It wants the object as it was.", func(x *trigger.Index) { applied(x, "a") }, 1},
		"AppliedAnother": {"That object is gone.", func(x *trigger.Index) { applied(x, "b") }, 0},
		"Leaving":        {"It removes the object.", func(x *trigger.Index) { applied(x, "a"); x.ExpectRemoval(api, key) }, 0},
		"Begun":          {"It has not applied the object yet.", func(x *trigger.Index) { x.Begin(api, key, "vidra/api") }, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &Finder{
				Claimant: Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}, Index: trigger.NewIndex(),
				VidraResources: &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"api": {}}},
			}
			a.Index.Load(a.Claimant.Owner, map[trigger.ObjectKey]trigger.Applied{key: {Manager: "vidra/web", UID: "a"}})
			tc.index(a.Index)
			owners, err := a.CoOwners(t.Context(), key, fixture.LiveConfigMap("a", nil, "vidra/web"))
			require.NoError(t, err)
			require.Len(t, owners, tc.want, tc.reason)
		})
	}
}

// TestCoOwnersGenuine says when what is written under the name of a co-owner is its own.
func TestCoOwnersGenuine(t *testing.T) {
	t.Parallel()
	live := fixture.LiveConfigMap("a", nil, "vidra/api")
	digest := trigger.DigestOf(live, "vidra/api", false, nil)
	edited := live.DeepCopy()
	require.NoError(t, unstructured.SetNestedField(edited.Object, "mine", "data", "greeting"))
	otherVersion := live.DeepCopy()
	otherVersion.SetAPIVersion("v2")
	key := trigger.ObjectKey{Namespace: "shop", Name: "page"}
	owner := trigger.Owner{Name: "api"}
	cases := map[string]struct {
		reason string
		live   *unstructured.Unstructured
		entry  string
		index  func(x *trigger.Index)
		want   bool
		intact bool
	}{
		"As in the inventory": {"It applied it so.", live, digest.String(), func(*trigger.Index) {}, true, true},
		"Edited":              {"Somebody wrote under its name.", edited, digest.String(), func(*trigger.Index) {}, false, false},
		"Never applied":       {"It has applied nothing.", live, "", func(*trigger.Index) {}, false, false},
		"As just applied": {"The status comes later.", live, "", func(x *trigger.Index) {
			x.Load(owner, map[trigger.ObjectKey]trigger.Applied{key: {Manager: "vidra/api", Digest: digest}})
		}, true, true},
		"In flight":          {"Nobody knows yet.", edited, digest.String(), func(x *trigger.Index) { x.Begin(owner, key, "vidra/api") }, true, true},
		"In another version": {"Its digest is of other paths.", otherVersion, "1:other", func(*trigger.Index) {}, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page", Digest: tc.entry}}
			a := &Finder{
				Claimant: Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}, Index: trigger.NewIndex(),
				VidraResources: &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"api": vr}},
			}
			tc.index(a.Index)
			owners, err := a.CoOwners(t.Context(), key, tc.live)
			require.NoError(t, err)
			require.Len(t, owners, 1)
			require.Equal(t, tc.want, owners[0].Genuine, tc.reason)
			require.Equal(t, tc.intact, owners[0].Intact, tc.reason)
		})
	}
}

// TestCrowded refuses one more owner than an object may have.
func TestCrowded(t *testing.T) {
	t.Parallel()
	var others []CoOwner
	for i := range MaxOwners {
		others = append(others, CoOwner{Name: fmt.Sprintf("v%d", i)})
	}
	require.ErrorContains(t, Crowded(others), "16 VidraResources own it already, and an object has 16 owners at most: take it out of this manifest, or out of that of v0, v1, ")
}

// TestConflictsShareAReading: a copied VidraResource conflicts about each of its objects. The manifest of the other one is read once a second for all of them, and
// again for each change.
func TestConflictsShareAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{ManifestFrom: []v1alpha1.ManifestSource{{Kind: "ConfigMap", Namespace: "shop", Name: "source"}}}}
		api.Name, api.UID, api.Generation = "api", "1", 1
		api.Status.ObservedGeneration = 1
		api.Status.ManagedResources = []v1alpha1.ManagedResourceStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "page", UID: "a"}}
		reads := 0
		greeting := "hello"
		a := &Finder{
			Claimant: Claimant{Owner: trigger.Owner{Name: "web"}, Manager: "vidra/web"}, Index: trigger.NewIndex(),
			VidraResources: &fixture.CacheOf{All: map[string]*v1alpha1.VidraResource{"api": api}},
			Named: &Named{Sources: &source.Watches{}, Parts: func(context.Context, *v1alpha1.VidraResource, func(source.Key) bool) ([]desired.Part, error) {
				reads++
				time.Sleep(2 * manifestFor) // a large one
				return []desired.Part{desired.NewPart("source", strings.NewReplacer("hello", greeting, "name: page", "name: page\n  namespace: shop").Replace(fixture.ConfigMapText), false)}, nil
			}},
		}
		live := fixture.LiveConfigMap("a", nil, "vidra/web", "vidra/api")
		conflict := func() string {
			owners, err := a.Conflicting(t.Context(), trigger.ObjectKey{Namespace: "shop", Name: "page"}, live)
			require.NoError(t, err)
			require.Len(t, owners, 1)
			require.False(t, owners[0].Leaving)
			value, _, _ := unstructured.NestedString(owners[0].wanted.Object, "data", "greeting")
			return value
		}
		for range 16 {
			require.Equal(t, "hello", conflict())
		}
		require.Equal(t, 1, reads, "the conflicts share it")
		greeting = "bye"
		time.Sleep(manifestFor)
		require.Equal(t, "bye", conflict(), "it is read again")
		greeting = "again"
		api.Generation = 2
		require.Equal(t, "again", conflict(), "another generation has another manifest")
		require.Equal(t, 3, reads)
	})
}

// TestConflictsOfTwoGenerations: of two conflicts at the same time, one knows an earlier generation than the other, and the one that asked first may read later.
func TestConflictsOfTwoGenerations(t *testing.T) {
	t.Parallel()
	a := &Finder{Named: &Named{Sources: &source.Watches{}}}
	of := func(generation int64, text string) *v1alpha1.VidraResource {
		api := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: text}}
		api.Name, api.UID, api.Generation = "api", "1", generation
		return api
	}
	page := object.IdentityIn(fixture.LiveConfigMap("a", nil))
	text := strings.ReplaceAll(fixture.ConfigMapText, "name: page", "name: page\n  namespace: shop")
	before, after := of(1, strings.ReplaceAll(text, "page", "other")), of(2, text)
	asked := &manifestRead{uid: after.UID, generation: after.Generation} // by the conflict with the later generation, which has not read it yet
	a.manifests.Store("api", asked)
	require.Nil(t, a.manifestOf(t.Context(), before).wanted(page))
	require.Equal(t, before.Generation, asked.generation, "it is the reading of this generation")
	is := a.manifestOf(t.Context(), after)
	require.NotNil(t, is.wanted(page))
	require.True(t, a.Named.names(t.Context(), after, is, page))
}
