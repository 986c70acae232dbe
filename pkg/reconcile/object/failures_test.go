package object

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

func TestExplain(t *testing.T) {
	deployments := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	secret := Identity{GroupKind: SecretKind, Namespace: "shop", Name: "s"}
	deployment := Identity{GroupKind: deployments, Namespace: "shop", Name: "web"}
	internal := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: message}}
	}
	const failed = "policy 'p' with binding 'b' denied request: expression 'x' resulted in error: no such key: tier"
	failedPolicy := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonInvalid, Message: failed,
		Details: &metav1.StatusDetails{Name: "web", Group: "apps", Kind: "deployments", Causes: []metav1.StatusCause{{Message: failed}}},
	}}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s",
		field.ErrorList{field.Invalid(field.NewPath("data", "password"), "hunter2", "no")})
	cases := map[string]struct {
		reason string
		err    error
		id     Identity
		want   Failure
	}{
		"Invalid": {
			"What the API server calls invalid is for the author.", apierrors.NewInvalid(deployments, "web", nil), deployment,
			Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: `Deployment.apps "web" is invalid`},
		},
		"InvalidSecret": {
			"The API server quotes values; those of a Secret are left out.", invalid, secret,
			Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "the API server answered Invalid for the fields [data.password]; its message is withheld because it may quote a sensitive value"},
		},
		"DoesNotFit": {
			"What does not fit the schema is for the author, though the API server calls it an error of its own.",
			internal("failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.ports: field not declared in schema"), deployment,
			Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "spec.ports: field not declared in schema"},
		},
		"NotBase64": {
			"So is a password in plain text, which is not told.",
			internal("failed to convert new object (shop/s; /v1, Kind=Secret) to proper version: illegal base64 data at input byte 7"), secret,
			Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: "the API server answered an error (illegal base64 data at input byte 7); its message is withheld because it may quote a sensitive value"},
		},
		"NoNamespace": {
			"The namespace is what is missing, not the kind.",
			apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), deployment,
			Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "namespace shop does not exist: create it, or add it to the manifest"},
		},
		"NoKind": {
			"A path that is not served is a kind that is not there.",
			apierrors.NewGenericServerResponse(404, "PATCH", schema.GroupResource{}, "", "", 0, true), deployment,
			Failure{Reason: v1alpha1.ReasonKindUnavailable, Message: "kind Deployment of apps/v1 is not served here: install its CustomResourceDefinition, or correct the kind or apiVersion"},
		},
		"CutConnection": {
			"A webhook that cuts the connection is one problem, from whatever port it was asked.",
			internal("failed calling webhook \"page.example.com\": read tcp 127.0.0.1:33884->10.0.0.7:443: read: connection reset by peer"), deployment,
			Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "failed calling webhook \"page.example.com\": read tcp 10.0.0.7:443: read: connection reset by peer"},
		},
		"MutatingPolicy": {
			"A policy that fails is no fault of the manifest, though the API server calls it invalid.", failedPolicy, deployment,
			Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "policy 'p' with binding 'b' denied request: expression 'x' resulted in error: no such key: tier"},
		},
		"QuotedPolicy": {
			"A value that looks like the message of a policy is none.",
			apierrors.NewInvalid(deployments, "web", field.ErrorList{field.Invalid(field.NewPath("spec", "a"), "policy 'p' denied request: ", "no")}), deployment,
			Failure{Reason: v1alpha1.ReasonManifestInvalid, Message: `spec.a: Invalid value: "policy 'p' denied request: ": no`},
		},
		"Other": {"Anything else is told as it is.", errors.New("timeout"), deployment, Failure{Reason: v1alpha1.ReasonApplyFailed, Message: "timeout"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Explain(tc.err, tc.id.WithVersion("v1"), tc.id, ownership.Disclose(false, ownership.Sensitivity(tc.id.GroupKind == SecretKind), false)), tc.reason)
		})
	}
}

// TestDisclosureOf: the annotation of a VidraResource counts like the values in its manifest.
func TestDisclosureOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, manifest string
		annotations      map[string]string
		want             bool
	}{
		"Plain":     {"Nothing is sensitive.", "kind: ConfigMap", nil, false},
		"Manifest":  {"The manifest has a Secret.", "kind: Secret", nil, true},
		"Annotated": {"Its author withholds the whole.", "kind: ConfigMap", map[string]string{ownership.SensitiveAnnotation: "true"}, true},
	}
	for name, tc := range cases {
		vr := &v1alpha1.VidraResource{Spec: v1alpha1.VidraResourceSpec{Manifest: tc.manifest}}
		vr.Annotations = tc.annotations
		require.Equal(t, tc.want, DisclosureOf(vr).Withholds(), "%s: %s", name, tc.reason)
	}
}
