package cloudevents

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var (
	owner      = corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "o1"}
	deployment = corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "d1"}
)
