package reconcile

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

func TestExplain(t *testing.T) {
	deployments := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	secret := identity{GroupKind: secretKind, namespace: "shop", name: "s"}
	deployment := identity{GroupKind: deployments, namespace: "shop", name: "web"}
	internal := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
	}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s",
		field.ErrorList{field.Invalid(field.NewPath("data", "password"), "hunter2", "no")})
	cases := map[string]struct {
		reason string
		err    error
		id     identity
		want   failure
	}{
		"Invalid": {
			"What the API server calls invalid is for the author.", apierrors.NewInvalid(deployments, "web", nil), deployment,
			failure{v1alpha1.ReasonManifestInvalid, `Deployment.apps "web" is invalid`},
		},
		"InvalidSecret": {
			"The API server quotes values; those of a Secret are left out.", invalid, secret,
			failure{v1alpha1.ReasonManifestInvalid, "the API server answered Invalid for the fields [data.password]; its message is withheld because it may quote a sensitive value"},
		},
		"DoesNotFit": {
			"What does not fit the schema is for the author, though the API server calls it an error of its own.",
			internal("failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.ports: field not declared in schema"), deployment,
			failure{v1alpha1.ReasonManifestInvalid, "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.ports: field not declared in schema"},
		},
		"NotBase64": {
			"So is a password in plain text, which is not told.",
			internal("failed to convert new object (shop/s; /v1, Kind=Secret) to proper version: illegal base64 data at input byte 7"), secret,
			failure{v1alpha1.ReasonManifestInvalid, "the API server answered an error for the fields []; its message is withheld because it may quote a sensitive value"},
		},
		"NoNamespace": {
			"The namespace is what is missing, not the kind.",
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), deployment,
			failure{v1alpha1.ReasonApplyFailed, "namespace shop does not exist: create it, or add it to the manifest"},
		},
		"NoKind": {
			"A path that is not served is a kind that is not there.",
			apierrors.NewGenericServerResponse(404, "PATCH", schema.GroupResource{}, "", "", 0, true), deployment,
			failure{v1alpha1.ReasonKindUnavailable, "kind Deployment of apps/v1 is not served here: install its CustomResourceDefinition, or correct the kind or apiVersion"},
		},
		"CutConnection": {
			"A webhook that cuts the connection is one problem, from whatever port it was asked.",
			internal("failed calling webhook \"page.example.com\": read tcp 127.0.0.1:33884->10.0.0.7:443: read: connection reset by peer"), deployment,
			failure{v1alpha1.ReasonApplyFailed, "failed calling webhook \"page.example.com\": read tcp 10.0.0.7:443: read: connection reset by peer"},
		},
		"Other": {"Anything else is told as it is.", errors.New("timeout"), deployment, failure{v1alpha1.ReasonApplyFailed, "timeout"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, explain(tc.err, tc.id.WithVersion("v1"), tc.id, tc.id.GroupKind == secretKind), tc.reason)
		})
	}
}

func TestRivals(t *testing.T) {
	conflict := func(with ...string) error {
		var causes []metav1.StatusCause
		for _, w := range with {
			causes = append(causes, metav1.StatusCause{
				Type: metav1.CauseTypeFieldManagerConflict, Message: "conflict with " + w, Field: ".data.color",
			})
		}
		return apierrors.NewApplyConflict(causes, "conflict")
	}
	owner := func(manager string) (*coOwner, bool) { return &coOwner{name: "shop"}, manager == "vidra/shop" }
	none := func(string) (*coOwner, bool) { return nil, false }
	require.NoError(t, ownershipConflictIn(conflict(`"kubectl-edit" using v1`, `"helm"`), owner), "fields of anybody else are taken back")
	require.EqualError(t, ownershipConflictIn(conflict(`"helm"`, `"vidra/shop"`), owner),
		"VidraResource shop wants another value of data.color: let only one of them set it")
	elsewhere := func(manager string) (*coOwner, bool) { return &coOwner{}, manager == "vidra/shop@east" }
	require.EqualError(t, ownershipConflictIn(conflict(`"helm"`, `"vidra/shop@east"`), elsewhere), "the field manager \"vidra/shop@east\" of another "+
		"Vidra installation wants another value of data.color: let only one of them set it, or set spec.adopt to Always to take it")
	require.NoError(t, ownershipConflictIn(conflict(`"vidra/shop"`), none), "the name of a VidraResource that does not own the object is anybody's")
	require.NoError(t, ownershipConflictIn(conflict(`"vidra/shop" using v1 at 2026-01-01T00:00:00Z`), owner), "Vidra owns no field by an update")
	require.NoError(t, ownershipConflictIn(conflict(`"vidra/shop" with subresource "status"`), owner), "or by a subresource")
	gone := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("uid"))
	require.Equal(t, gone, ownershipConflictIn(gone, owner), "a conflict that is not about fields stays an error")
}
