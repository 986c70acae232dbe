package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BreakGlassState is the answer to a request for break-glass.
// +kubebuilder:validation:Enum=Accepted;Ignored;Ended
type BreakGlassState string

const (
	// BreakGlassAccepted is an accepted request: Vidra reverts no edit of the object and
	// does not delete it.
	BreakGlassAccepted BreakGlassState = "Accepted"
	// BreakGlassIgnored is a request without effect.
	BreakGlassIgnored BreakGlassState = "Ignored"
	// BreakGlassEnded is a request that was accepted and is over.
	BreakGlassEnded BreakGlassState = "Ended"
)

// BreakGlassStatus is the answer to the break-glass annotations of an object. It
// outlives them while the maximum counts.
type BreakGlassStatus struct {
	// State is Accepted, Ignored or Ended.
	State BreakGlassState `json:"state"`
	// Since is when the first request was accepted. The maximum counts from then.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// Until is when the exemption ends, or ended.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Message is the reason that the request gives, or the reason for ignoring or ending it.
	// +optional
	Message string `json:"message,omitempty"`
	// Request identifies the annotations that this is the answer to. One that has ended
	// does not begin again: it takes other annotations.
	// +optional
	Request string `json:"request,omitempty"`
}
