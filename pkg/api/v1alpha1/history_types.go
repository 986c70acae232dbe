package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// MaxHistory is how many entries the history of a VidraResource has at most.
	MaxHistory = 50
	// MaxHistoryMessage is how many bytes the message of an entry has at most.
	MaxHistoryMessage = 300
	// MaxHistoryFields is how many fields an entry names at most.
	MaxHistoryFields = 10
	// MaxHistoryWriter is how many bytes the name of a field manager or user has at most.
	MaxHistoryWriter = 128
)

// HistoryEntry is an edit of a managed object, with its result. The same edit with the same result
// is one entry, however often it was made.
type HistoryEntry struct {
	// Object that was edited.
	Object ProblemObject `json:"object"`
	// Reason of the Event about the edit, such as DriftCorrected.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// Message names the edited fields and the result, as the Event does. Values of Secrets are
	// withheld.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Message string `json:"message,omitempty"`
	// Fields are the paths of the fields that were edited, at most ten. None for an object that
	// had been deleted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Fields []string `json:"fields,omitempty"`
	// Values are the values that the edit had given to Fields, as JSON and in their order: null for a field that it had
	// removed, and empty for a value that is withheld or longer than 512 bytes. None if there are more fields, or if all are
	// longer than 512 bytes together.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Values []string `json:"values,omitempty"`
	// Manager is the field manager of the edit, where the API server recorded one.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Manager string `json:"manager,omitempty"`
	// User who made the edit, where the policy of config/policies/stamp recorded it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	User string `json:"user,omitempty"`
	// FirstTime is when Vidra found the edit for the first time.
	FirstTime metav1.Time `json:"firstTime"`
	// LastTime is when Vidra found the edit for the last time.
	LastTime metav1.Time `json:"lastTime"`
	// Count is how often it did.
	Count int64 `json:"count"`
}
