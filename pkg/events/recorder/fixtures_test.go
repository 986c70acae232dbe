package recorder

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

const (
	normal  = corev1.EventTypeNormal
	warning = corev1.EventTypeWarning
)

var owner = corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "o1"}
