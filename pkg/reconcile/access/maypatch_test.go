package access

import (
	"cmp"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/internal/fixture"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

// asker answers the questions of one user about rights.
type asker struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	user    string
	allowed bool
	err     error
	// asked are the resources of the questions, and spec is the last one.
	asked []string
	spec  map[string]any
}

func (a *asker) Resource(gvr schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	a.asked = append(a.asked, gvr.Resource)
	return a
}

func (a *asker) Create(_ context.Context, question *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	a.spec, _, _ = unstructured.NestedMap(question.Object, "spec")
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"allowed": a.allowed}}}, a.err
}

// questioned is a destination with the clients of Vidra and of an account.
type questioned struct {
	Destination
	vidra, account *asker
}

func (q questioned) Dynamic() dynamic.Interface { return q.vidra }

func (q questioned) As(user string) (dynamic.Interface, error) {
	q.account.user = user
	return q.account, nil
}

// namespaceless is a cache without Namespaces, or one that cannot be read. A late Namespace comes after the first read.
type namespaceless struct {
	client.Reader
	err  error
	late bool
	read int
}

func (n *namespaceless) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if n.read++; n.late && n.read > 1 {
		return nil
	}
	return cmp.Or(n.err, error(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)))
}

// TestMayPatch: the rights of an account are known, too, where Vidra may not impersonate it. A tenant may withdraw that right, and delete the Namespace of
// the account.
func TestMayPatch(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "deployer", errors.New("cannot impersonate"))
	const self, other = "selfsubjectaccessreviews", "subjectaccessreviews"
	cases := map[string]struct {
		reason         string
		vidra, account asker
		selector       labels.Selector
		namespaces     namespaceless
		want           bool
		err            error
		asked          []string
		unasked        bool
	}{
		"May":         {reason: "Its account answers.", account: asker{allowed: true}, want: true},
		"MayNot":      {reason: "Its account answers.", vidra: asker{allowed: true}},
		"Unknown":     {reason: "The API server may answer later.", account: asker{err: down}, vidra: asker{allowed: true}, err: down},
		"Forbidden":   {reason: "The answer is the same for Vidra.", account: asker{err: forbidden}, asked: []string{other}},
		"ForbiddenTo": {reason: "Another installation may act as the account.", account: asker{err: forbidden}, vidra: asker{allowed: true}, want: true, asked: []string{other}},
		"Neither":     {reason: "Vidra lacks the right to ask.", account: asker{err: forbidden}, vidra: asker{err: down}, err: down, asked: []string{other}},
		"NoNamespace": {reason: "The Namespace may be new.", selector: labels.Everything(), err: &NoNamespace{}},
		"Late":        {reason: "The Namespace came meanwhile.", selector: labels.Everything(), namespaces: namespaceless{late: true}, account: asker{allowed: true}, want: true},
		"Unreadable":  {reason: "The Namespace may exist.", selector: labels.Everything(), namespaces: namespaceless{err: down}, err: down, unasked: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vr := &v1alpha1.VidraResource{}
			vr.Spec.Destination.Namespace, vr.Spec.ServiceAccountName = "shop", "deployer"
			key := trigger.ObjectKey{GVR: fixture.ConfigMaps, Namespace: "bank", Name: "page"}
			may, err := Accounts{Cache: &tc.namespaces, Impersonated: tc.selector}.MayPatch(t.Context(), vr, questioned{vidra: &tc.vidra, account: &tc.account}, key)
			require.Equal(t, tc.want, may, tc.reason)
			require.Equal(t, IsNoNamespace(tc.err), IsNoNamespace(err), tc.reason)
			if !IsNoNamespace(tc.err) {
				require.ErrorIs(t, err, tc.err, tc.reason)
			}
			if !tc.unasked && !IsNoNamespace(tc.err) {
				require.Equal(t, []string{self}, tc.account.asked)
				require.Equal(t, "system:serviceaccount:shop:deployer", tc.account.user)
			}
			require.Equal(t, tc.asked, tc.vidra.asked, tc.reason)
			if len(tc.asked) > 0 {
				require.Equal(t, map[string]any{
					"user": "system:serviceaccount:shop:deployer", "groups": []any{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
					"resourceAttributes": map[string]any{"namespace": "bank", "name": "page", "verb": "patch", "version": "v1", "resource": "configmaps"},
				}, tc.vidra.spec)
			}
		})
	}
	may, err := Accounts{Required: true}.MayPatch(t.Context(), &v1alpha1.VidraResource{}, questioned{}, trigger.ObjectKey{})
	require.NoError(t, err)
	require.False(t, may, "no request is sent without an account")
	require.Equal(t, authorizationv1.SchemeGroupVersion.WithResource(other), subjectReviews)
}
