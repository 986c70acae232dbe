package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// BreakGlassUntilAnnotation on a managed object has Vidra leave the object
	// alone until the time that is its value, in RFC 3339:
	// 2026-01-31T18:00:00Z. It counts only with BreakGlassReasonAnnotation.
	BreakGlassUntilAnnotation = "vidraresource.infrahub.operators.com/break-glass-until"
	// BreakGlassReasonAnnotation says why an object is to be left alone.
	BreakGlassReasonAnnotation = "vidraresource.infrahub.operators.com/break-glass-reason"

	// DefaultHealsPerMinute is how often a field is put back within a minute when
	// spec.drift.healsPerMinute is not set.
	DefaultHealsPerMinute = 5
)

// DriftMode says what is done about an object that somebody changed.
// +kubebuilder:validation:Enum=Correct;Warn;Ignore
type DriftMode string

const (
	// DriftCorrect puts the object back.
	DriftCorrect DriftMode = "Correct"
	// DriftWarn says so, in the condition Drifted and in an Event, and writes
	// nothing.
	DriftWarn DriftMode = "Warn"
	// DriftIgnore does nothing.
	DriftIgnore DriftMode = "Ignore"
)

// DriftPolicy says what is done when somebody changes a managed object. It does
// not keep a changed manifest from being applied.
type DriftPolicy struct {
	// Mode is Correct, Warn or Ignore.
	// +optional
	// +kubebuilder:default:=Correct
	Mode DriftMode `json:"mode,omitempty"`

	// HealsPerMinute is how often the same field of the same object is put back
	// within a minute. Beyond it, somebody fights for the field: that object is put
	// back less and less often, until the other side is quiet.
	// +optional
	// +kubebuilder:default:=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	HealsPerMinute int32 `json:"healsPerMinute,omitempty"`

	// Ignore lists fields that are left to others. What a rule covers is set when
	// Vidra creates the object, and never written again until the rule goes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ignore []IgnoreRule `json:"ignore,omitempty"`
}

// IgnoreRule leaves fields of objects to others: those at its paths, those that
// its managers set, or, with both, those at its paths that its managers set.
// +kubebuilder:validation:XValidation:rule="(has(self.paths) && size(self.paths) > 0) || (has(self.managers) && size(self.managers) > 0)",message="a rule needs paths or managers"
type IgnoreRule struct {
	// Target says which objects of the manifest the rule is for. Defaults to all.
	// +optional
	Target IgnoreTarget `json:"target,omitempty"`

	// Paths are JSON pointers (RFC 6901) into the object as the manifest has it,
	// such as /spec/replicas. A path covers everything below it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:Pattern=`^(/([^/~]|~[01])+)+$`
	Paths []string `json:"paths,omitempty"`

	// Managers are names of field managers, as metadata.managedFields has them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:MinLength=1
	Managers []string `json:"managers,omitempty"`
}

// IgnoreTarget selects objects of the manifest. Every field that is set has to
// match.
type IgnoreTarget struct {
	// Group is the API group of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// Kind of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Namespace of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// LabelSelector selects by the labels that the manifest gives the object.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// DriftMode is what is done about drift. Defaults to DriftCorrect.
func (v *VidraResource) DriftMode() DriftMode {
	if v.Spec.Drift == nil || v.Spec.Drift.Mode == "" {
		return DriftCorrect
	}
	return v.Spec.Drift.Mode
}

// HealsPerMinute is how often a field is put back within a minute. Defaults to
// DefaultHealsPerMinute.
func (v *VidraResource) HealsPerMinute() int {
	if v.Spec.Drift == nil || v.Spec.Drift.HealsPerMinute < 1 {
		return DefaultHealsPerMinute
	}
	return int(v.Spec.Drift.HealsPerMinute)
}
