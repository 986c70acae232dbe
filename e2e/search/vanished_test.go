package search

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/e2e/faultproxy"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// TestDeletedBeforeItsFinalizer: the API server asks for finalizers at the begin of a deletion, so that a VidraResource can be gone although the
// operator has added its finalizer and applies its objects. The created objects go, too, unless a manifest has them.
//
// The generated plans have found it: an object of a VidraResource that was deleted 20 ms after its creation stayed.
func TestDeletedBeforeItsFinalizer(t *testing.T) {
	manifest := func(names ...string) (text string) {
		for _, name := range names {
			text += "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {key: value}\n"
		}
		return text
	}
	cases := map[string]struct {
		reason string
		// existed reports that another client has created the object before.
		existed bool
		// again is the manifest of a VidraResource of the same name that is created before the operator knows; empty without one, and other of one of
		// another name.
		again, other []string
		stays        bool
	}{
		"Gone":      {reason: "Nothing names the object."},
		"Replaced":  {reason: "Another VidraResource has the name, and may be of another author.", again: []string{"page"}, stays: true},
		"Again":     {reason: "The next VidraResource of the name has the object.", again: []string{"one"}, stays: true},
		"Elsewhere": {reason: "Another VidraResource has the object.", other: []string{"one"}, stays: true},
		"Existed":   {reason: "Vidra did not create the object.", existed: true, stays: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, r := t.Context(), newRun(t.Context(), t, t.Logf)
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.main(), Name: "one"}, Data: map[string]string{"key": "value"}}
			if tc.existed {
				require.NoError(t, admin.Create(ctx, object))
			}
			resource := func(name string, objects []string) *v1alpha1.VidraResource {
				v := &v1alpha1.VidraResource{ObjectMeta: metav1.ObjectMeta{Name: r.owner(name)}}
				v.Spec = v1alpha1.VidraResourceSpec{Destination: v1alpha1.Destination{Namespace: r.main()}, Manifest: manifest(objects...), Adopt: v1alpha1.AdoptAlways}
				require.NoError(t, admin.Create(ctx, v))
				t.Cleanup(func() { _ = admin.Delete(context.Background(), v) })
				return v
			}
			rule := proxies[0].Inject(faultproxy.Match{Where: func(q faultproxy.Request) bool {
				return q.Verb == "patch" && q.Resource == "configmaps" && q.Namespace == r.main() && q.Name == "one"
			}}, faultproxy.Late().Times(1))
			defer rule.Remove()
			v := resource("a", []string{"one"})
			require.Eventually(t, func() bool { return rule.Holding() == 1 }, patience, 5*time.Millisecond, "the object is applied")
			require.NoError(t, admin.Get(ctx, client.ObjectKeyFromObject(object), object))
			require.NoError(t, admin.Patch(ctx, v, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
			require.NoError(t, admin.Delete(ctx, v))
			if tc.again != nil {
				resource("a", tc.again)
			}
			if tc.other != nil {
				resource("b", tc.other)
			}
			rule.Remove()
			live := &corev1.ConfigMap{}
			if !tc.stays {
				require.Eventually(t, func() bool {
					return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(object), live))
				}, patience, 50*time.Millisecond, tc.reason)
				return
			}
			requireQuiet(ctx, t, r, restWindow, 30*restWindow)
			require.NoError(t, admin.Get(ctx, client.ObjectKeyFromObject(object), live), tc.reason)
			require.Equal(t, object.UID, live.UID, tc.reason)
		})
	}
}
