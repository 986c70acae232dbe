package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MaxProblems is how many problems a status lists, and MaxProblemMessage how many bytes the
// message of one has.
const (
	MaxProblems       = 100
	MaxProblemMessage = 1024
)

// Problem is one thing that is not as it should be, or that Vidra waits for.
type Problem struct {
	// Conditions that the problem is part of. Ready among them means that the VidraResource
	// is not Ready because of it.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=64
	Conditions []string `json:"conditions"`
	// Object that the problem is about. None if it is about the VidraResource, its manifest
	// or its destination.
	// +optional
	Object *ProblemObject `json:"object,omitempty"`
	// Reason of the problem, one of the reasons of conditions.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// Message names the fault, its cause and the next step.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
	// Since is when the object got a problem with this reason.
	Since metav1.Time `json:"since"`
	// Transient means that Vidra expects the problem to end without a user: it waits for
	// something, such as the deletion of the object.
	// +optional
	Transient bool `json:"transient,omitempty"`
	// Unconfirmed means that the last reconcile could not find out whether the problem is
	// over, for example because the destination does not answer or because the object is
	// being deleted. Ready does not count it.
	// +optional
	Unconfirmed bool `json:"unconfirmed,omitempty"`
}

// ProblemObject is the object that a problem is about, or all objects of a resource that
// cannot be watched.
type ProblemObject struct {
	// APIVersion of the object.
	APIVersion string `json:"apiVersion"`
	// Kind of the object. None if the problem is about a watch.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Resource that is watched, such as deployments. None if the problem is about one object.
	// +optional
	Resource string `json:"resource,omitempty"`
	// Namespace of the object or of the watch. None for cluster-scoped kinds.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object. None if the problem is about a watch.
	// +optional
	Name string `json:"name,omitempty"`
}
