// Package eventtest has Events of Vidra for tests.
package eventtest

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Noon is the time of the tests.
var Noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// The objects that the Events are about.
var (
	Resource = corev1.ObjectReference{APIVersion: "infrahub.operators.com/v1alpha1", Kind: "VidraResource", Name: "web"}
	Settings = corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
)

// New returns an Event that was seen some time before Noon.
func New(name, reason string, ago time.Duration, regarding corev1.ObjectReference, related *corev1.ObjectReference) *eventsv1.Event {
	namespace := regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		EventTime:  metav1.NewMicroTime(Noon.Add(-ago)), Type: corev1.EventTypeNormal, Reason: reason, Action: "Restore",
		Regarding: regarding, Related: related, ReportingInstance: "vidra-operator-0", Note: "reverted",
	}
}

// Corrected returns the Event about the VidraResource of a revert, and Reverted the Event about the object.
func Corrected() *eventsv1.Event {
	return New("corrected", "DriftCorrected", time.Minute, Resource, &Settings)
}

// Reverted returns the Event about the object of a revert.
func Reverted() *eventsv1.Event {
	return New("reverted", "ChangeReverted", time.Minute, Settings, &Resource)
}
