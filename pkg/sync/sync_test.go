package sync

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/source/archive"
	"github.com/vidra-operator/vidra/pkg/source/infrahub"
)

// TestImports: this package and the client import nothing of the engine, and no package of the engine imports them.
func TestImports(t *testing.T) {
	const module = "github.com/vidra-operator/vidra/"
	allowed := map[string]bool{"pkg/api/v1alpha1": true, "pkg/events": true, "pkg/clients": true, "pkg/internal/display": true, "pkg/internal/parallel": true, "pkg/manifest": true, "pkg/ownership": true, "pkg/parts": true, "pkg/source/archive": true, "pkg/source/infrahub": true}
	ours := map[string]bool{"sync": true, filepath.Join("source", "infrahub"): true}
	require.NoError(t, filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		require.NoError(t, err)
		dir, err := filepath.Rel("..", filepath.Dir(path))
		require.NoError(t, err)
		for _, one := range file.Imports {
			name, err := strconv.Unquote(one.Path.Value)
			require.NoError(t, err)
			of, inModule := strings.CutPrefix(name, module)
			switch {
			case !inModule:
			case ours[dir]:
				require.True(t, allowed[of], "%s imports %s", path, name)
			default:
				require.False(t, of == "pkg/sync" || of == "pkg/source/infrahub", "%s imports %s", path, name)
			}
		}
		return nil
	}))
}

func controlledBy(is *v1alpha1.InfrahubSync, names ...string) (all []*v1alpha1.VidraResource) {
	for _, name := range names {
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		vr.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(is, v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))}
		all = append(all, vr)
	}
	return all
}

// TestPlanRemovals has the rules of deletions.
func TestPlanRemovals(t *testing.T) {
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is"}}
	other := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "other"}}
	deleting := controlledBy(is, "z")[0]
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	all := controlledBy(is, "a", "b", "c", "d")
	cases := map[string]struct {
		reason     string
		controlled []*v1alpha1.VidraResource
		listed     string
		prune      v1alpha1.SyncPrune
		unapplied  int
		confirmed  []string
		// asked are those that wait by the status, if others than the confirmed ones do.
		asked      []string
		ended      bool
		remembered []string
		now        string
		pending    int
	}{
		"None":       {reason: "all are listed", controlled: all, listed: "abcd"},
		"One":        {reason: "one of four is gone", controlled: all, listed: "abc", now: "d"},
		"Half":       {reason: "half is not more than half", controlled: all, listed: "ab", now: "cd"},
		"More":       {reason: "three of four are more than half", controlled: all, listed: "a", pending: 3},
		"Empty":      {reason: "the server lists nothing", controlled: controlledBy(is, "a"), pending: 1},
		"Other":      {reason: "another InfrahubSync of the same name controls it", controlled: controlledBy(other, "a", "b"), listed: "x"},
		"NoOwner":    {reason: "nobody controls it", controlled: []*v1alpha1.VidraResource{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, listed: "x"},
		"Deleting":   {reason: "it is being deleted", controlled: append([]*v1alpha1.VidraResource{deleting}, all...), listed: "abcd"},
		"Confirm":    {reason: "each deletion waits", controlled: all, listed: "abc", prune: v1alpha1.SyncPruneConfirm, pending: 1},
		"Unknown":    {reason: "a value of another version permits no deletion", controlled: all, listed: "abc", prune: "Never", pending: 1},
		"Unapplied":  {reason: "an artifact that is not applied may have the objects", controlled: all, listed: "abc", unapplied: 1, pending: 1},
		"Confirmed":  {reason: "exactly these are confirmed", controlled: all, listed: "a", confirmed: []string{"b", "c", "d"}, now: "bcd"},
		"Ended":      {reason: "they were confirmed when the server listed them again", controlled: all, listed: "a", confirmed: []string{"b", "c", "d"}, ended: true, pending: 3},
		"Returned":   {reason: "others waited, too, and are listed again", controlled: all, listed: "a", confirmed: []string{"b", "c", "d"}, asked: []string{"a", "b", "c", "d"}, now: "bcd"},
		"Others":     {reason: "others are confirmed", controlled: all, listed: "a", confirmed: []string{"b", "c"}, pending: 3},
		"Remembered": {reason: "some of the confirmed ones are deleted already", controlled: all[1:], listed: "", remembered: []string{"b", "c", "d"}, now: "bcd"},
		"Grown":      {reason: "one more than the confirmed ones", controlled: all, listed: "", remembered: []string{"b", "c", "d"}, pending: 4},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			is := is.DeepCopy()
			is.Spec.Prune = tc.prune
			if tc.confirmed != nil {
				is.Status.PendingRemovals, _ = pendingOf(is, controlledBy(is, tc.confirmed...))
				is.Annotations = map[string]string{v1alpha1.ConfirmRemovalAnnotation: is.Status.PendingRemovals.Confirmation}
			}
			if tc.asked != nil {
				is.Status.PendingRemovals, _ = pendingOf(is, controlledBy(is, tc.asked...))
			}
			if tc.ended {
				is.Status.PendingRemovals = nil
			}
			listed, remembered := map[string]bool{}, map[types.UID]bool{}
			for _, one := range tc.listed {
				listed[string(one)] = true
			}
			for _, one := range tc.remembered {
				remembered[types.UID("uid-"+one)] = true
			}
			plan := planRemovals(is, tc.controlled, listed, tc.unapplied, remembered)
			names := ""
			for _, vr := range plan.now {
				names += vr.Name
			}
			require.Equal(t, tc.now, names, tc.reason)
			if tc.pending == 0 {
				require.Nil(t, plan.pending, tc.reason)
				return
			}
			require.EqualValues(t, tc.pending, plan.pending.Count, tc.reason)
			require.NotEmpty(t, plan.why)
			require.NotEqual(t, is.Annotations[v1alpha1.ConfirmRemovalAnnotation], plan.pending.Confirmation)
			is.Status.PendingRemovals = plan.pending
			same := planRemovals(is, tc.controlled, listed, tc.unapplied, remembered)
			require.Equal(t, plan.pending, same.pending, "it is asked for once")
		})
	}
}

// TestClassify separates what goes into a Secret.
func TestClassify(t *testing.T) {
	const plain = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	nested := func(text string) string {
		return "apiVersion: infrahub.operators.com/v1alpha1\nkind: VidraResource\nmetadata: {name: v}\nspec:\n  manifest: |\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: hidden}\n"
	for name, tc := range map[string]struct {
		reason, text string
		hidden       bool
	}{
		"Plain":     {"it has no Secret", plain, false},
		"Secret":    {"it has a Secret", plain + "---\n" + secret, true},
		"OtherKind": {"a Secret of another group is none", "apiVersion: example.com/v1\nkind: Secret\nmetadata: {name: hidden}\n", false},
		"Embedded":  {"a kind that distributes objects has one", "apiVersion: example.com/v1\nkind: Work\nmetadata: {name: w}\nspec: {objects: [{apiVersion: v1, kind: Secret, stringData: {k: hidden}}]}\n", true},
		"Annotated": {"an object is marked", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {infrahub.operators.com/sensitive: 'true'}}\ndata: {k: hidden}\n", true},
		"Unmarked":  {"the mark is false", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {infrahub.operators.com/sensitive: 'false'}}\n", false},
		"Nested":    {"a VidraResource has one", nested(secret), true},
		"NestedTwo": {"a VidraResource in a VidraResource has one", nested(nested(secret)), true},
		"NestedBad": {"what a VidraResource has is not known", nested("a: [hidden"), true},
		"NestedOK":  {"a VidraResource without one", nested(plain), false},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := classify("id", []byte("\n"+tc.text))
			require.Nil(t, p)
			require.Equal(t, tc.hidden, c.secret != "", tc.reason)
			if tc.hidden {
				require.NotContains(t, c.spec, "hidden")
			} else {
				require.Equal(t, strings.TrimSpace(tc.text), c.spec)
			}
		})
	}
}

// TestRefusedQuotesNothing: the answer of a policy or webhook about a write is shown, unless it may quote a value that is never shown.
func TestRefusedQuotesNothing(t *testing.T) {
	denied := func(text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: text}}
	}
	policy := denied(`admission webhook "w" denied the request: hunter2`)
	right := denied(`vidraresources.infrahub.operators.com "v" is forbidden: User "u" cannot patch resource "vidraresources"`)
	const withheld = "the API server answered Forbidden; its message is withheld because it may quote a sensitive value"
	for name, tc := range map[string]struct{ reason, got, want string }{
		"Plain":       {"nothing in it is withheld", asProblem("id", "v", "kind: ConfigMap", policy).Error(), `write VidraResource v: admission webhook "w" denied the request: hunter2`},
		"Environment": {"it has variables", asProblem("id", "v", "kind: Pod\nspec: {containers: [{env: [{name: A, value: hunter2}]}]}", policy).Error(), "write VidraResource v: " + withheld},
		"Secret":      {"all of it is withheld", reasonOf(policy), withheld},
		"Right":       {"a right has no value", reasonOf(right), right.Error() + ": grant Vidra the right"},
		"NoAnswer":    {"an error of the network", reasonOf(errors.New("dial tcp: hunter2")), "the API server did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, tc.got, tc.reason)
		})
	}
}

// TestRefusedDeletionQuotesNothing: the manifest of a VidraResource that is deleted was not read, and may be in the answer of a policy or webhook.
func TestRefusedDeletionQuotesNothing(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is"}}
	objects := []client.Object{is}
	for _, vr := range controlledBy(is, "a", "b", "c") {
		vr.Spec.Manifest = "kind: Pod\nspec: {containers: [{env: [{name: A, value: hunter2}]}]}"
		objects = append(objects, vr)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "w" denied the request: hunter2`}}
		},
	}).Build()
	r := &run{reconciler: &Reconciler{API: c, Client: c}, is: is, session: newSession("is")}
	listed := map[string]bool{"a": true, "b": true}
	controlled, err := r.controlled(t.Context(), listed)
	require.NoError(t, err)
	err = r.remove(t.Context(), controlled, listed)
	require.ErrorContains(t, err, "delete VidraResource c: the API server answered Forbidden")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestChangedInfrahubSync: a sync writes and deletes nothing once its InfrahubSync is another one than it began with, as the answers of a server may take
// minutes: the garbage collector would delete a VidraResource of one that is gone.
func TestChangedInfrahubSync(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}"))
	}))
	defer listener.Close()
	from, err := infrahub.New(infrahub.Options{URL: listener.URL, Credentials: infrahub.Credentials{Token: "t"}})
	require.NoError(t, err)
	for name, change := range map[string]func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync{
		"deleted":       func(*v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync { return nil },
		"created again": func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync { is.UID = "other"; return is },
		"another spec":  func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync { is.Generation++; return is },
		"of a backup":   func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync { is.ResourceVersion = "90"; return is },
		"being deleted": func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync {
			is.DeletionTimestamp, is.Finalizers = &metav1.Time{Time: time.Now()}, []string{metav1.FinalizerOrphanDependents}
			return is
		},
		"of another installation": func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync {
			is.Labels = map[string]string{v1alpha1.InstallationLabel: "other"}
			return is
		},
		"not confirmed any more": func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync { is.Annotations = nil; return is },
		"waiting no more":        func(is *v1alpha1.InfrahubSync) *v1alpha1.InfrahubSync { is.Status.PendingRemovals = nil; return is },
	} {
		t.Run(name, func(t *testing.T) {
			is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is", Generation: 1, ResourceVersion: "100", Annotations: map[string]string{v1alpha1.ConfirmRemovalAnnotation: "a-b"}}}
			is.Status.PendingRemovals = &v1alpha1.PendingRemovals{Confirmation: "a-b"}
			var objects []client.Object
			if now := change(is.DeepCopy()); now != nil {
				objects = append(objects, now)
			}
			for _, vr := range controlledBy(is, "a", "b", "c") {
				objects = append(objects, vr)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
					require.Fail(t, "a write of "+o.GetName())
					return nil
				},
			}).Build()
			r := &run{is: is, session: newSession("is"), queried: &server{client: from}, reconciler: &Reconciler{API: c, Client: c, bounds: bounds{syncs: semaphore.NewWeighted(1), parsing: semaphore.NewWeighted(1)}}}
			listed := map[string]bool{"a": true, "b": true}
			controlled, err := r.controlled(t.Context(), listed)
			require.NoError(t, err)
			require.ErrorIs(t, r.remove(t.Context(), controlled, listed), errChanged)
			require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "c"}, &v1alpha1.VidraResource{}))
			_, err = r.apply(t.Context(), infrahub.Artifact{ID: "d", StorageID: "s"})
			require.ErrorIs(t, err, errChanged)
		})
	}
}

// TestRefusedChangeQuotesNothing: the answer of a policy or webhook may quote a value of the former manifest, which the new one lacks.
func TestRefusedChangeQuotesNothing(t *testing.T) {
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "w" denied the request: hunter2`}}
		},
	}).Build()
	r := &run{reconciler: &Reconciler{API: c, Client: c}, is: &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is"}}, session: newSession("is")}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"manifest": "kind: ConfigMap"}}}
	require.ErrorContains(t, r.writeResource(t.Context(), "a", nil, u), "hunter2", "nothing in it is withheld")
	live := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: "kind: Pod\nspec: {containers: [{env: [{name: A, value: hunter2}]}]}"}}
	require.NotContains(t, r.writeResource(t.Context(), "a", live, u).Error(), "hunter2")
}

// TestAdoptionKeepsTheAccount: a VidraResource without a controller is adopted by an InfrahubSync with its account alone. The author of another
// one may lack the right to act as that account, and Vidra, which writes the VidraResource, has it.
func TestAdoptionKeepsTheAccount(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	gone := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SyncKind, Name: "gone", UID: "gone", Controller: new(true)}
	for name, tc := range map[string]struct {
		reason             string
		account, namespace string
		owners             []metav1.OwnerReference
		conflict           bool
	}{
		"Same":           {"its author may act as it", "deployer", "shop", nil, false},
		"None":           {"Vidra itself applied it", "", "shop", nil, false},
		"OtherName":      {"another account of the namespace", "admin", "shop", nil, true},
		"OtherNamespace": {"an account of another team", "deployer", "bank", nil, true},
		"GoneController": {"its InfrahubSync is gone, as that of another team", "deployer", "bank", []metav1.OwnerReference{gone}, true},
	} {
		t.Run(name, func(t *testing.T) {
			vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "a", OwnerReferences: tc.owners}}
			vr.Spec.ServiceAccountName, vr.Spec.Destination.Namespace = tc.account, tc.namespace
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(vr).Build()
			is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is"}}
			is.Spec.ServiceAccountName, is.Spec.Destination.Namespace = "deployer", "shop"
			live, err := (&run{reconciler: &Reconciler{API: c, Client: c}, is: is}).live(t.Context(), c, "a")
			if tc.conflict {
				require.ErrorContains(t, err, tc.namespace+"/"+tc.account, tc.reason)
				return
			}
			require.NoError(t, err, tc.reason)
			require.NotNil(t, live)
		})
	}
}

// TestAdoptionDuringTheAnswer: a VidraResource of another team that is created, or gets its account, while the server answers is not written. An Infrahub
// server of a tenant may take any time to answer.
func TestAdoptionDuringTheAnswer(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is", Generation: 1}}
	is.Spec.ServiceAccountName, is.Spec.Destination.Namespace = "deployer", "shop"
	ofAccount := func(namespace string) *v1alpha1.VidraResource {
		vr := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		vr.Spec.ServiceAccountName, vr.Spec.Destination.Namespace = "deployer", namespace
		return vr
	}
	for name, tc := range map[string]struct {
		reason string
		before *v1alpha1.VidraResource
		// atWrite reports that the change precedes the write, after the last read.
		atWrite, own bool
		// quiet reports that there is no change.
		quiet bool
	}{
		"Created":     {reason: "The answer came later."},
		"Changed":     {reason: "The answer came later.", before: ofAccount("shop")},
		"AtWrite":     {reason: "The write has the version that was read.", before: ofAccount("shop"), atWrite: true},
		"AtCreate":    {reason: "The write of an absent one creates it.", atWrite: true},
		"Quiet":       {reason: "The write is the only request.", quiet: true, own: true},
		"OwnAtCreate": {reason: "It may be adopted.", atWrite: true, own: true},
		"Harmless":    {reason: "Another write of it, as of its status, is no obstacle.", before: ofAccount("shop"), atWrite: true, own: true},
	} {
		t.Run(name, func(t *testing.T) {
			var c client.WithWatch
			change := func() {
				if tc.quiet {
					return
				}
				theirs := ofAccount(map[bool]string{true: "shop", false: "bank"}[tc.own])
				if tc.before == nil {
					require.NoError(t, c.Create(context.WithoutCancel(t.Context()), theirs))
				}
				live := &v1alpha1.VidraResource{}
				require.NoError(t, c.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(theirs), live))
				live.Spec, live.Labels = theirs.Spec, map[string]string{"changed": "true"}
				require.NoError(t, c.Update(context.WithoutCancel(t.Context()), live))
			}
			writes := 0
			builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(is).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, under client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
					if writes++; writes == 1 && tc.atWrite {
						change()
					}
					live := &v1alpha1.VidraResource{}
					if err := under.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
						return client.IgnoreNotFound(err) // it is created
					}
					if version := o.GetResourceVersion(); version != "" && version != live.ResourceVersion {
						return apierrors.NewConflict(v1alpha1.Resource.GroupResource(), o.GetName(), errors.New("changed"))
					}
					require.Equal(t, "shop", live.Spec.Destination.Namespace, "the VidraResource of another team is written")
					return nil
				},
			})
			if tc.before != nil {
				builder = builder.WithObjects(tc.before.DeepCopy())
			}
			c = builder.Build()
			listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if !tc.atWrite {
					change()
				}
				_, _ = w.Write([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}"))
			}))
			defer listener.Close()
			from, err := infrahub.New(infrahub.Options{URL: listener.URL, Credentials: infrahub.Credentials{Token: "t"}})
			require.NoError(t, err)
			r := &run{is: is, session: newSession("is"), queried: &server{client: from}, reconciler: &Reconciler{API: c, Client: c, bounds: bounds{syncs: semaphore.NewWeighted(1), parsing: semaphore.NewWeighted(1)}}}
			reads, disturbed := 0, map[bool]int{false: 1}[tc.quiet]
			r.reconciler.API = interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, under client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
					if _, is := o.(*v1alpha1.VidraResource); is {
						reads++
					}
					return under.Get(ctx, key, o, options...)
				},
			})
			_, err = r.apply(t.Context(), infrahub.Artifact{ID: "a", StorageID: "s"})
			require.Equal(t, disturbed, reads, "it is read again after a conflict alone")
			if tc.own {
				require.NoError(t, err, tc.reason)
				require.Equal(t, 1+disturbed, writes)
				return
			}
			require.ErrorContains(t, err, "bank/deployer", tc.reason)
			if p := new(problem); errors.As(err, &p) {
				require.Equal(t, v1alpha1.ArtifactConflict, p.Reason)
			}
		})
	}
}

// TestWritesCreate: the writes of a Secret and of an ExternalArtifact that were absent create them: those that another client creates meanwhile are left as they are.
func TestWritesCreate(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(externalArtifact, &unstructured.Unstructured{})
	var versions []string
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
			versions = append(versions, o.GetResourceVersion())
			return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("it exists"))
		},
	}).Build()
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is"}, Spec: v1alpha1.InfrahubSyncSpec{Publish: &v1alpha1.InfrahubSyncPublish{Namespace: "flux-system"}}}
	r := &run{is: is, session: newSession("is"), secretNamespace: "shop", reconciler: &Reconciler{API: c, Client: c}}
	require.ErrorContains(t, r.writeSecret(t.Context(), "a", "1", "a", metav1.OwnerReference{}, "text"), "write Secret shop/a")
	require.ErrorContains(t, r.writeExternalArtifact(t.Context(), metav1.OwnerReference{}, published{}, "", 0), "it exists")
	require.Equal(t, []string{noVersion, noVersion}, versions)
}

// TestExternalArtifactOfAnother: an ExternalArtifact that was created while the server answered is not written.
func TestExternalArtifactOfAnother(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(externalArtifact, &unstructured.Unstructured{})
	theirs := &unstructured.Unstructured{}
	theirs.SetGroupVersionKind(externalArtifact)
	theirs.SetNamespace("flux-system")
	theirs.SetName("is")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(theirs).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			require.Fail(t, "it is written")
			return nil
		},
	}).Build()
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is"}, Spec: v1alpha1.InfrahubSyncSpec{Publish: &v1alpha1.InfrahubSyncPublish{Namespace: "flux-system"}}}
	err := (&run{is: is, reconciler: &Reconciler{API: c, Client: c}}).writeExternalArtifact(t.Context(), metav1.OwnerReference{}, published{}, "", 0)
	require.ErrorContains(t, err, "is not of this InfrahubSync")
}

// TestPublishInScope: an operator that is for other namespaces sends no request about an ExternalArtifact.
func TestPublishInScope(t *testing.T) {
	refused := errors.New("not for this namespace")
	api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("it is read")
		},
	})
	is := &v1alpha1.InfrahubSync{Spec: v1alpha1.InfrahubSyncSpec{Publish: &v1alpha1.InfrahubSyncPublish{Namespace: "flux-system"}}}
	for namespace, message := range map[string]string{"shop": refused.Error(), "flux-system": "it is read"} {
		r := &run{is: is, session: newSession("is"), reconciler: &Reconciler{API: api, Client: api, Publication: &Publication{}, Options: Options{InScope: func(in string) error {
			if in != namespace {
				return refused
			}
			return nil
		}}}}
		require.ErrorContains(t, r.publish(t.Context(), nil), message)
	}
}

// TestTextOfAProxy: a text with 404 does not make the InfrahubSync absent that controls a VidraResource, which another one would adopt, and none of the objects
// that an InfrahubSync writes.
func TestTextOfAProxy(t *testing.T) {
	for text, dangling := range map[bool]bool{true: false, false: true} {
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "infrahubsyncs"}, key.Name, "404 page not found", 0, text)
			},
		})
		owner := &metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.SyncKind, Name: "other", UID: "other"}
		r := &run{
			is: &v1alpha1.InfrahubSync{Spec: v1alpha1.InfrahubSyncSpec{Publish: &v1alpha1.InfrahubSyncPublish{}}}, session: newSession("is"), reconciler: &Reconciler{API: api, Client: api},
		}
		is, err := r.dangling(t.Context(), owner)
		require.Equal(t, dangling, is)
		require.Equal(t, dangling, err == nil)
		_, err = r.live(t.Context(), api, "a")
		require.Equal(t, dangling, err == nil)
		_, err = r.externalArtifact(t.Context())
		require.Equal(t, dangling, err == nil)
		require.Equal(t, dangling, r.writeSecret(t.Context(), "a", "1", "a", metav1.OwnerReference{}, "text") == nil)
	}
}

// TestDigestIn: the name of a branch may have the character that separates it from the digest.
func TestDigestIn(t *testing.T) {
	for revision, want := range map[string]string{"": "", "main@sha256:1": "sha256:1", "fix@2@sha256:1": "sha256:1", "@@sha256:1": "sha256:1"} {
		require.Equal(t, want, digestIn(revision), revision)
	}
}

// refusedSecrets are Secrets whose creation a webhook refuses.
type refusedSecrets struct{ typedcorev1.SecretInterface }

func (s refusedSecrets) Secrets(string) typedcorev1.SecretInterface { return s }

func (refusedSecrets) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Secret, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (refusedSecrets) Create(context.Context, *corev1.Secret, metav1.CreateOptions) (*corev1.Secret, error) {
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "w" denied the request: hunter2`}}
}

// TestRefusedArchiveQuotesNothing: the answer of a policy or webhook about a Secret with a published archive may quote it.
func TestRefusedArchiveQuotesNothing(t *testing.T) {
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: hunter2}"))
	}))
	defer listener.Close()
	from, err := infrahub.New(infrahub.Options{URL: listener.URL, Credentials: infrahub.Credentials{Token: "t"}})
	require.NoError(t, err)
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "is"}, Spec: v1alpha1.InfrahubSyncSpec{Publish: &v1alpha1.InfrahubSyncPublish{Namespace: "flux-system"}}}
	scheme := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	r := &run{is: is, session: newSession("is"), queried: &server{client: from}, reconciler: &Reconciler{
		API: fake.NewClientBuilder().WithScheme(scheme).WithObjects(is).Build(), bounds: bounds{syncs: semaphore.NewWeighted(1), parsing: semaphore.NewWeighted(1)}, Publication: &Publication{Store: &archive.Store{Secrets: refusedSecrets{}, Namespace: "vidra-system"}},
	}}
	err = r.publish(t.Context(), []infrahub.Artifact{{ID: "a", StorageID: "s"}})
	require.ErrorContains(t, err, "the Secrets with the published archive in namespace vidra-system: the API server answered Forbidden")
	require.NotContains(t, err.Error(), "hunter2")
}

// TestRefusedWriteWithWithheldValues: with --event-values=none, no answer of a policy or webhook about a write is shown. The switch lasts until
// the process ends, so that the test runs in one of its own.
func TestRefusedWriteWithWithheldValues(t *testing.T) {
	const own = "VIDRA_TEST_WITHHOLD"
	if os.Getenv(own) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), own+"=1")
		out, err := again.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	ownership.WithholdValues()
	policy := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "w" denied the request: hunter2`}}
	require.NotContains(t, asProblem("id", "v", "kind: ConfigMap\ndata: {a: hunter2}", policy).Error(), "hunter2")
}

// TestSecretsListedAgain: the first list of Secrets is repeated until it succeeds, so that a Secret without a VidraResource is found. Without
// the right there is none.
func TestSecretsListedAgain(t *testing.T) {
	answers := []error{apierrors.NewInternalError(errors.New("etcd is away")), apierrors.NewTooManyRequestsError("busy"), nil}
	for reason, tc := range map[string]struct {
		answers []error
		lists   int
	}{
		"it fails twice":       {answers, 3},
		"the right is missing": {[]error{apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))}, 1},
	} {
		lists := 0
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				lists++
				return tc.answers[min(lists, len(tc.answers))-1]
			},
		}).Build()
		r := &run{reconciler: &Reconciler{API: c}, is: &v1alpha1.InfrahubSync{}, session: newSession("is")}
		for range 5 {
			require.NoError(t, r.listSecrets(t.Context(), nil), reason)
		}
		require.Equal(t, tc.lists, lists, reason)
	}
}

// TestSecretThatStays: a Secret that its VidraResource needs no more, as its deletion failed or the operator was killed before, is found at each sync until
// it is deleted.
func TestSecretThatStays(t *testing.T) {
	is, a := &v1alpha1.InfrahubSync{}, infrahub.Artifact{ID: "a", Checksum: "1"}
	want, err := settings(is, a.ID, "")
	require.NoError(t, err)
	u, err := complete(want, contentID(a), "kind: ConfigMap", "")
	require.NoError(t, err)
	live := &v1alpha1.VidraResource{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, live))
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	left := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vidra-system", Name: secretPrefix + "a", Labels: map[string]string{v1alpha1.SyncLabel: v1alpha1.LabelValue(is.Name)}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(left).Build()
	s := newSession("is")
	current := func() bool {
		r := &run{reconciler: &Reconciler{API: c, Client: c}, is: is, session: s, secretNamespace: left.Namespace}
		require.NoError(t, r.listSecrets(t.Context(), []*v1alpha1.VidraResource{live}))
		_, current := r.current(live, want, contentID(a))
		return current
	}
	for range 3 {
		require.False(t, current(), "the write of the VidraResource is followed by the deletion of the Secret")
	}
	require.NoError(t, c.Delete(t.Context(), left))
	require.True(t, current())
	require.True(t, s.secretsListed)
}

// TestOwnWrites: the event of a write of the sync itself is no reason for another sync, also if it comes before the answer.
func TestOwnWrites(t *testing.T) {
	type report = int64
	cases := map[string]struct {
		reason         string
		before         report // during the write
		answer         int64
		after          []report
		dirty, enqueue bool
	}{
		"Before":  {reason: "the watch is faster than the answer", before: 2, answer: 2},
		"After":   {reason: "the answer is faster", answer: 2, after: []report{2}},
		"Late":    {reason: "an event of an earlier write comes late", answer: 3, after: []report{2, 3}},
		"Edit":    {reason: "another client edits it afterwards", answer: 2, after: []report{2, 3}, dirty: true, enqueue: true},
		"Within":  {reason: "another client edits it before the answer is here", before: 3, answer: 2, dirty: true},
		"Failed":  {reason: "the write failed, and another client edited it", before: 2, dirty: true},
		"Deleted": {reason: "it is deleted", answer: 2, after: []report{-1}, dirty: true, enqueue: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession("is")
			s.results.beginWrite("a")
			if tc.before != 0 {
				require.True(t, s.results.changed("a", tc.before), "what it means is known after the answer")
			}
			s.results.endWrite("a", tc.answer)
			enqueued := false
			for _, generation := range tc.after {
				enqueued = s.results.changed("a", generation)
			}
			require.Equal(t, tc.enqueue, enqueued, tc.reason)
			require.Equal(t, tc.dirty, s.results.takeDirty(), tc.reason)
		})
	}
	require.True(t, newSession("is").results.changed("unknown", 1))
}

// TestSessions: an InfrahubSync that is created again begins anew, and VidraResources of the former one do not concern it.
func TestSessions(t *testing.T) {
	r := &Reconciler{Metrics: NewMetrics()}
	is := func(uid types.UID) *v1alpha1.InfrahubSync {
		return &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: uid, Generation: 1}}
	}
	owner := func(uid types.UID) *metav1.OwnerReference {
		return metav1.GetControllerOf(controlledBy(is(uid), "a")[0])
	}
	first, now := r.session(is("1")), time.Now()
	first.last.generation, first.next = 1, now.Add(time.Hour)
	require.False(t, r.session(is("1")).due(is("1"), now))
	require.Same(t, first, r.sessionOf(owner("1")))
	require.True(t, r.session(is("2")).due(is("2"), now), "it is another one")
	require.Nil(t, r.sessionOf(owner("1")))
	require.NotNil(t, r.sessionOf(owner("2")))
	r.forget("is")
	require.Nil(t, r.sessionOf(owner("2")))
}

// TestWaitsForItsServer: an InfrahubSync waits as long as its server asks, and for no server that its spec names no more.
func TestWaitsForItsServer(t *testing.T) {
	now := time.Now()
	busy := &server{key: serverKey{url: "https://busy.example.com"}, notBefore: now.Add(time.Hour)}
	for name, tc := range map[string]struct {
		reason string
		url    string
		// suspended is spec.suspend.
		suspended bool
		want      time.Duration
	}{
		"its server":            {reason: "it asks for an hour", url: "https://busy.example.com", want: time.Hour},
		"its URL with a slash":  {reason: "it is the same one", url: "https://busy.example.com/", want: time.Hour},
		"another server":        {reason: "that one asks for nothing", url: "https://idle.example.com"},
		"a suspended one":       {reason: "it sends no request", url: "https://busy.example.com", suspended: true},
		"a path of that server": {reason: "it may be another one", url: "https://busy.example.com/infrahub"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession("1")
			s.server, s.last.started = busy, now.Add(-minGap)
			is := &v1alpha1.InfrahubSync{Spec: v1alpha1.InfrahubSyncSpec{Source: v1alpha1.InfrahubSyncSource{InfrahubAPIURL: tc.url}, Suspend: tc.suspended}}
			require.Equal(t, tc.want, max(0, s.waits(is, now)), tc.reason)
		})
	}
}

// TestSecretsInOrder: of several Secrets with credentials, one in the namespace of the operator counts, else the oldest one.
func TestSecretsInOrder(t *testing.T) {
	secret := func(namespace, name string, second int) corev1.Secret {
		return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(int64(second), 0)}}
	}
	for name, tc := range map[string]struct {
		reason string
		all    []corev1.Secret
		want   string
	}{
		"Own":    {"the newest is in the namespace of the operator", []corev1.Secret{secret("a", "x", 1), secret("vidra", "x", 9)}, "vidra/x"},
		"Oldest": {"a new one in another namespace replaces none", []corev1.Secret{secret("a", "x", 2), secret("b", "x", 1)}, "b/x"},
		"Name":   {"the order of the same second is that of the names", []corev1.Secret{secret("b", "x", 1), secret("a", "y", 1), secret("a", "x", 1)}, "a/x"},
	} {
		t.Run(name, func(t *testing.T) {
			sortSecrets(tc.all, "vidra")
			require.Equal(t, tc.want, tc.all[0].Namespace+"/"+tc.all[0].Name, tc.reason)
		})
	}
}

// TestTransitions: an Event when Ready changes, and when VidraResources are written.
func TestTransitions(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}}
	}
	good, bad := condition(metav1.ConditionTrue, "Synced", "1 artifact applied"), condition(metav1.ConditionFalse, "Unauthorized", "answer 401")
	for name, tc := range map[string]struct {
		reason        string
		before, after []metav1.Condition
		result        result
		want          []string
	}{
		"Quiet":     {"nothing happened", good, good, result{}, nil},
		"Fails":     {"it fails", good, bad, result{}, []string{"Warning Unauthorized answer 401"}},
		"Lasts":     {"it still fails", bad, bad, result{}, nil},
		"Other":     {"it fails for another reason", bad, condition(metav1.ConditionFalse, "ServerError", "500"), result{}, []string{"Warning ServerError 500"}},
		"Recovers":  {"it succeeds again", bad, good, result{}, []string{"Normal Synced the sync succeeds again"}},
		"Writes":    {"VidraResources were written", good, good, result{written: writtenNames{created: []string{"a"}, deleted: []string{"b", "c"}}}, []string{"Normal Synced created 1 VidraResource (a), deleted 2 VidraResources (b, c)"}},
		"Suspended": {"it is suspended", bad, condition(metav1.ConditionUnknown, "Suspended", ""), result{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range transitions(corev1.ObjectReference{}, tc.before, tc.after, tc.result) {
				got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Note))
			}
			require.Equal(t, tc.want, got, tc.reason)
		})
	}
}

// TestMessagesOfInfrahubAreALine: Infrahub cannot forge lines of kubectl describe, or move the cursor, with its answers.
func TestMessagesOfInfrahubAreALine(t *testing.T) {
	const text, want = "no\n\x1b[2K\u202e", `no \x1b[2K\u202e`
	is := &v1alpha1.InfrahubSync{}
	got := conclude(is, failed(&infrahub.Error{Reason: v1alpha1.SyncReasonUnreachable, Message: text}), time.Now())
	require.Equal(t, want, got.LastError)
	require.Equal(t, want, meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionReady).Message)
	problem := newProblem(text, v1alpha1.ArtifactNotReady, "%s", text)
	require.Equal(t, want, problem.ID)
	require.Equal(t, want, problem.Message)
}

// TestConclude: the status bounds what it lists, and is written without a change every few minutes only.
func TestConclude(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", Generation: 2}}
	r := result{answered: true, artifacts: artifactResults{listed: 3000, applied: 2970}}
	for i := range 2970 {
		r.artifacts.checksums = append(r.artifacts.checksums, fmt.Sprintf("%032d", i))
	}
	for i := range 30 {
		r.artifacts.problems = append(r.artifacts.problems, v1alpha1.ArtifactProblem{ID: fmt.Sprint(i), Reason: v1alpha1.ArtifactNotReady, Message: strings.Repeat("x", maxMessage)})
	}
	got := conclude(is, r, now)
	require.Len(t, got.Checksums, v1alpha1.MaxSyncChecksums)
	require.Len(t, got.Problems, v1alpha1.MaxSyncProblems)
	require.EqualValues(t, 10, got.UnlistedProblems)
	require.LessOrEqual(t, len(got.LastError), maxLastError)
	require.Equal(t, v1alpha1.SyncFailed, got.SyncState)

	is.Status = conclude(is, result{answered: true, artifacts: artifactResults{listed: 1, applied: 1}}, now)
	require.Equal(t, is.Status, conclude(is, result{answered: true, artifacts: artifactResults{listed: 1, applied: 1}}, now.Add(time.Minute)))
	later := conclude(is, result{answered: true, artifacts: artifactResults{listed: 1, applied: 1}}, now.Add(statusAge))
	require.Equal(t, now.Add(statusAge), later.LastSyncTime.UTC())
	failed := conclude(is, failed(&infrahub.Error{Reason: v1alpha1.SyncReasonUnreachable, Message: "away"}), now.Add(time.Hour))
	require.Equal(t, now, failed.LastSyncTime.UTC(), "nothing was synced")
	require.EqualValues(t, 1, failed.Applied)

	created := &v1alpha1.InfrahubSync{Spec: v1alpha1.InfrahubSyncSpec{Suspend: true}}
	for range 2 {
		created.Status = conclude(created, result{}, now)
		require.Equal(t, v1alpha1.SyncPending, created.Status.SyncState, "no query was sent")
	}
	is.Spec.Suspend = true
	require.Equal(t, v1alpha1.SyncStale, conclude(is, result{}, now).SyncState)
}

// TestSourceLeavesTheCache: the handler of a controller that has ended is called no more, as each CustomResourceDefinition of InfrahubSyncs begins another one.
func TestSourceLeavesTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := watch.NewFakeWithChanSize(10, false)
		informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return &v1alpha1.VidraResourceList{}, nil
			},
			WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if o.SendInitialEvents != nil {
					return nil, apierrors.NewBadRequest("lists are not streamed")
				}
				return events, nil
			},
		}, &v1alpha1.VidraResource{}, 0, toolscache.Indexers{})
		scheme := runtime.NewScheme()
		require.NoError(t, v1alpha1.AddToScheme(scheme))
		of := &informertest.FakeInformers{Scheme: scheme, InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{v1alpha1.GroupVersion.WithKind(v1alpha1.Kind): informer}}
		running, end := context.WithCancel(t.Context())
		go informer.RunWithContext(running)
		is := &v1alpha1.InfrahubSync{ObjectMeta: metav1.ObjectMeta{Name: "is", UID: "1"}}
		r := &Reconciler{Metrics: NewMetrics()}
		r.session(is)
		begin := func() (context.CancelFunc, workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			ctx, cancel := context.WithCancel(running)
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
			require.NoError(t, r.vidraResources(of).Start(ctx, q))
			synctest.Wait()
			return cancel, q
		}
		endFirst, first := begin()
		endFirst()
		_, second := begin()
		vr := controlledBy(is, "a")[0]
		vr.ResourceVersion = "1"
		events.Add(vr.DeepCopy())
		vr.ResourceVersion = "2"
		events.Delete(vr.DeepCopy())
		synctest.Wait()
		require.Equal(t, 1, second.Len())
		require.Zero(t, first.Len())
		first.ShutDown()
		second.ShutDown()
		end()
		synctest.Wait()
	})
}

// TestRepeatedSyncFailures: the status of syncs that fail in the same way stays the same, whatever the local port of the connection was.
func TestRepeatedSyncFailures(t *testing.T) {
	is := &v1alpha1.InfrahubSync{}
	status := func(port int) v1alpha1.InfrahubSyncStatus {
		return conclude(is, failed(fmt.Errorf("list VidraResources: read tcp 10.0.0.1:%d->10.0.0.2:443: read: connection reset by peer", port)), time.Time{})
	}
	is.Status = status(41000)
	require.Equal(t, is.Status, status(41001))
}

// TestRemovalsWaitDuringProblems: the removal of published files waits on while an artifact has a problem, so that a confirmation of it counts afterwards. It
// ends when the server lists the artifact of such a file again.
func TestRemovalsWaitDuringProblems(t *testing.T) {
	asked := &v1alpha1.PendingRemovals{Confirmation: "a-b", Count: 2, Names: []string{"b.yaml", "c.yaml"}}
	broken := infrahub.Artifact{ID: "a", Status: "Error"}
	for name, tc := range map[string]struct {
		reason string
		listed []infrahub.Artifact
		want   *v1alpha1.PendingRemovals
	}{
		"Problem": {"what is published, stays", []infrahub.Artifact{broken}, asked},
		"Listed":  {"a confirmation from now on is of another removal", []infrahub.Artifact{broken, {ID: "c", Status: "Error"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := &v1alpha1.InfrahubSync{
				Spec:   v1alpha1.InfrahubSyncSpec{Publish: &v1alpha1.InfrahubSyncPublish{Namespace: "flux-system"}},
				Status: v1alpha1.InfrahubSyncStatus{PendingRemovals: asked},
			}
			r := &run{is: is, session: newSession("is"), reconciler: &Reconciler{API: fake.NewClientBuilder().Build(), Publication: &Publication{}}}
			require.NoError(t, r.publish(t.Context(), tc.listed))
			require.Len(t, r.result.artifacts.problems, len(tc.listed))
			require.Equal(t, tc.want, conclude(is, r.result, time.Time{}).PendingRemovals, tc.reason)
		})
	}
	is := &v1alpha1.InfrahubSync{Status: v1alpha1.InfrahubSyncStatus{PendingRemovals: asked}}
	problems := artifactResults{problems: []v1alpha1.ArtifactProblem{{ID: "1", Reason: v1alpha1.ArtifactUnavailable}}}
	require.Nil(t, conclude(is, result{answered: true, artifacts: problems}, time.Time{}).PendingRemovals, "VidraResources are compared with the artifacts, whatever their problems")
}

// TestFloodOfWebhooks: a client without the key leaves room to others, whether it sends quickly or slowly.
func TestFloodOfWebhooks(t *testing.T) {
	r := &Receiver{Metrics: NewMetrics(), KeyFile: filepath.Join(t.TempDir(), "keys")}
	require.NoError(t, os.WriteFile(r.KeyFile, []byte("a key of webhooks"), 0o600))
	r.Complete()
	answer := func(address string, body io.Reader) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, WebhookPath, body)
		request.RemoteAddr = address
		w := httptest.NewRecorder()
		r.ServeHTTP(w, request)
		return w.Code
	}
	const hostile, infrahub = "10.0.0.1:1000", "10.0.0.2:1000"
	slow, end := io.Pipe()
	ended := make(chan int)
	for range webhooksAtATime {
		go func() { ended <- answer(hostile, slow) }()
	}
	for range webhooksAtATime / 2 {
		require.Equal(t, http.StatusTooManyRequests, <-ended, "the others wait for their bodies")
	}
	require.Equal(t, http.StatusUnauthorized, answer(infrahub, strings.NewReader("{}")), "a request of another client is read")
	require.NoError(t, end.Close())
	for range webhooksAtATime / 2 {
		require.Equal(t, http.StatusUnauthorized, <-ended)
	}
	for range webhookBurst {
		answer(hostile, strings.NewReader("{}"))
	}
	require.Equal(t, http.StatusTooManyRequests, answer(hostile, strings.NewReader("{}")))
	require.Equal(t, http.StatusUnauthorized, answer(infrahub, strings.NewReader("{}")))
}
