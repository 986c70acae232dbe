package reconcile

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// TestKindGone tells a kind that is not served from what else may be missing.
func TestKindGone(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Thing"}
	things := schema.GroupResource{Group: gvk.Group, Resource: "things"}
	tests := map[string]struct {
		reason string
		err    error
		want   bool
		says   string
	}{
		"no match": {"discovery does not have it", &meta.NoKindMatchError{GroupKind: gvk.GroupKind()}, true, v1alpha1.ReasonKindUnavailable},
		"404": {
			"the API server has no such path", apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", things, "", "", 0, true),
			true, v1alpha1.ReasonKindUnavailable,
		},
		"a CustomResourceDefinition that goes": {
			"it will not be served", apierrors.NewForbidden(things, "thing", errors.New("create not allowed while custom resource definition is terminating")),
			true, v1alpha1.ReasonKindUnavailable,
		},
		"a right":   {"the kind is there", apierrors.NewForbidden(things, "thing", errors.New("no right")), false, v1alpha1.ReasonApplyFailed},
		"an object": {"the kind has no such object", apierrors.NewNotFound(things, "thing"), false, v1alpha1.ReasonApplyFailed},
		"another object": {
			"a RoleBinding needs its Role", apierrors.NewNotFound(schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}, "reader"), false, v1alpha1.ReasonApplyFailed,
		},
		"a verb": {
			"the kind is there, and nothing that is installed helps", apierrors.NewMethodNotSupported(things, "patch"),
			false, v1alpha1.ReasonManifestInvalid,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, object.KindGone(tc.err), tc.reason)
			why := object.Explain(tc.err, gvk, object.Identity{GroupKind: gvk.GroupKind(), Name: "thing"}, ownership.Disclosure{})
			require.Equal(t, tc.says, why.Reason, why.Message)
		})
	}
}
