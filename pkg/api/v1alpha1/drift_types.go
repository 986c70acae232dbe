package v1alpha1

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// BreakGlassUntilAnnotation on a managed object asks Vidra to revert no edit of
	// the object and not to delete it until the time that is its value, in RFC 3339:
	// 2026-01-31T18:00:00Z. It counts only together with the annotation break-glass-reason,
	// and for as long as spec.drift.maxBreakGlass allows. The answer is in Events and in
	// status.managedResources[].breakGlass.
	BreakGlassUntilAnnotation = "vidraresource.infrahub.operators.com/break-glass-until"
	// BreakGlassReasonAnnotation is the reason for the exemption of an object.
	BreakGlassReasonAnnotation = "vidraresource.infrahub.operators.com/break-glass-reason"

	// DefaultMaxBreakGlass is how long an object is exempt at most when neither
	// spec.drift.maxBreakGlass nor a flag of the operator is set.
	DefaultMaxBreakGlass = 24 * time.Hour

	// DefaultHealsPerMinute is how often a field is reverted within a minute without
	// being contended when spec.drift.healsPerMinute is unset.
	DefaultHealsPerMinute = 5
	// DefaultMaxExposure is for how long a foreign value stands at most in a contended
	// object when spec.drift.maxExposure is unset.
	DefaultMaxExposure = 10 * time.Second
)

// DriftMode is the response to a change of an object by a user or a program.
// +kubebuilder:validation:Enum=Correct;Warn;Ignore
type DriftMode string

const (
	// DriftCorrect reverts the change.
	DriftCorrect DriftMode = "Correct"
	// DriftWarn reports the change, in the condition Drifted and in an Event, and does not
	// revert it.
	DriftWarn DriftMode = "Warn"
	// DriftIgnore does nothing.
	DriftIgnore DriftMode = "Ignore"
)

// AdditionsPolicy is the response to fields that a user added to an object.
// +kubebuilder:validation:Enum=Keep;Warn;Revert
type AdditionsPolicy string

const (
	// AdditionsKeep keeps them.
	AdditionsKeep AdditionsPolicy = "Keep"
	// AdditionsWarn keeps them, and reports them in the condition Drifted and in an Event.
	AdditionsWarn AdditionsPolicy = "Warn"
	// AdditionsRevert removes them.
	AdditionsRevert AdditionsPolicy = "Revert"
)

// ControllerFieldsPolicy is the response to fields that controllers of Kubernetes write by contract.
// +kubebuilder:validation:Enum=Ignore;Revert
type ControllerFieldsPolicy string

const (
	// ControllerFieldsIgnore leaves them to the controllers.
	ControllerFieldsIgnore ControllerFieldsPolicy = "Ignore"
	// ControllerFieldsRevert treats them as other fields.
	ControllerFieldsRevert ControllerFieldsPolicy = "Revert"
)

// DriftPolicy is the response to a change of a managed object by a user or a program. A
// changed manifest is applied whatever the policy is.
type DriftPolicy struct {
	// Mode is Correct, Warn or Ignore. Correct reverts changes. Warn reports them in the
	// condition Drifted and in an Event. Ignore does neither.
	// +optional
	// +kubebuilder:default:=Correct
	Mode DriftMode `json:"mode,omitempty"`

	// HealsPerMinute is how often Vidra reverts the same field of the same object within a
	// minute before the object is contended: the condition Drifted and the Event
	// DriftContended then name the other field manager, the field, and the rule of
	// spec.drift.ignore that ends the contention. It delays no revert. Reverts of a contended
	// object are delayed only under sustained load: 100 are never delayed, then 10 a second
	// are possible in the first minute and 1 a second after it. The contention is over when
	// the object was not changed for a minute.
	// +optional
	// +kubebuilder:default:=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	HealsPerMinute int32 `json:"healsPerMinute,omitempty"`

	// MaxExposure is for how long a foreign value stands at most in a contended object,
	// however many objects are contended: its revert is not delayed for longer.
	// Between 1s and 5m.
	// +optional
	// +kubebuilder:default:="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="maxExposure must be at least 1s: reverts of a contended object more often than that would overload the API server"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('5m')",message="maxExposure must be at most 5m: a foreign value must not stand for longer. To accept it, add a rule to spec.drift.ignore"
	MaxExposure *metav1.Duration `json:"maxExposure,omitempty"`

	// MaxBreakGlass is for how long the break-glass annotations of an object exempt it
	// at most, counted from the first request that was accepted. A new count begins
	// when the object has been without exemption for as long as it had one. 0s accepts
	// no break-glass. Defaults to the operator's flag --max-break-glass, which is 24h
	// unless it is set.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	MaxBreakGlass *metav1.Duration `json:"maxBreakGlass,omitempty"`

	// ControllerFields is Ignore or Revert, the response to fields of the manifest that a controller of
	// Kubernetes writes by contract, where the manifest has an empty value or a placeholder: the rules of an aggregated
	// ClusterRole, the caBundle of webhooks, APIServices and conversions, the binding of volumes and Pods, the Secrets of a
	// ServiceAccount, the data of its token, the published root CA, the addresses of Endpoints, the holder of a Lease, the
	// labels of a Node, bundles that OpenShift injects, an empty status of a custom kind, and annotations that controllers own. Ignore leaves
	// them to the controller, as a rule of ignore does, and applies none that binds an object to the UID of another one.
	// Revert treats them as all other fields.
	// +optional
	// +kubebuilder:default:=Ignore
	ControllerFields ControllerFieldsPolicy `json:"controllerFields,omitempty"`

	// Additions is Keep, Warn or Revert, the response to a field, or an item of a list,
	// that a user adds to an object and that the manifest does not name. Users are recognized
	// by their field managers, such as kubectl-edit, k9s or a dashboard; the operator's flag
	// --people-tools has the list. Keep does nothing. Warn reports additions in the condition Drifted and in an Event. Revert removes
	// them, also those that existed before it was set or before the object was adopted. What
	// controllers write, the status, subresources such as scale, metadata other than labels and
	// annotations, and the annotation of kubectl rollout restart are no additions. What an edit
	// adds in the place of something that it removes is always removed. Defaults to the
	// operator's flag --drift-additions, which is Keep if not set.
	// +optional
	Additions AdditionsPolicy `json:"additions,omitempty"`

	// Ignore has rules for fields that other writers may change. Vidra sets such a field when
	// it creates the object, gives up its ownership, and does not write the field again until
	// the rule is removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Ignore []IgnoreRule `json:"ignore,omitempty"`
}

// IgnoreRule names fields of objects that Vidra does not revert: those at its paths, those
// that its managers set, or, with both, those at its paths that its managers set.
// +kubebuilder:validation:XValidation:rule="(has(self.paths) && size(self.paths) > 0) || (has(self.managers) && size(self.managers) > 0)",message="a rule needs paths or managers"
type IgnoreRule struct {
	// Target selects the objects of the manifest that the rule is for. Defaults to all.
	// +optional
	Target IgnoreTarget `json:"target,omitempty"`

	// Paths are JSON pointers (RFC 6901) into the object as the manifest has it,
	// such as /spec/replicas. A path covers everything below it. [key=value] in it selects
	// items of a list by their fields, such as /spec/ports/[port=80,protocol=TCP]/nodePort.
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

// CoreGroup is the name of the core group in an IgnoreTarget, where no group means all of them.
const CoreGroup = "core"

// IgnoreTarget selects objects of the manifest. Every field that is set has to
// match.
type IgnoreTarget struct {
	// Group is the API group of the object. The group core means the core group alone.
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

// IgnoreTargetOf returns the target that selects one object alone: no group would select the objects of its kind and name in all groups.
func IgnoreTargetOf(kind schema.GroupKind, namespace, name string) IgnoreTarget {
	return IgnoreTarget{Group: cmp.Or(kind.Group, CoreGroup), Kind: kind.Kind, Name: name, Namespace: namespace}
}

// DriftMode is the mode of spec.drift. Defaults to DriftCorrect.
func (v *VidraResource) DriftMode() DriftMode {
	if v.Spec.Drift == nil {
		return DriftCorrect
	}
	return cmp.Or(v.Spec.Drift.Mode, DriftCorrect)
}

// Additions is the policy for fields that a user added. Defaults to otherwise, and to
// AdditionsKeep if that is empty.
func (v *VidraResource) Additions(otherwise AdditionsPolicy) AdditionsPolicy {
	otherwise = cmp.Or(otherwise, AdditionsKeep)
	if v.Spec.Drift == nil {
		return otherwise
	}
	return cmp.Or(v.Spec.Drift.Additions, otherwise)
}

// MaxExposure is for how long a foreign value stands at most in a contended object.
// Defaults to DefaultMaxExposure.
func (v *VidraResource) MaxExposure() time.Duration {
	if v.Spec.Drift == nil || v.Spec.Drift.MaxExposure == nil || v.Spec.Drift.MaxExposure.Duration <= 0 {
		return DefaultMaxExposure
	}
	return v.Spec.Drift.MaxExposure.Duration
}

// HealsPerMinute is how often a field is reverted within a minute without being
// contended. Defaults to DefaultHealsPerMinute.
func (v *VidraResource) HealsPerMinute() int {
	if v.Spec.Drift == nil || v.Spec.Drift.HealsPerMinute < 1 {
		return DefaultHealsPerMinute
	}
	return int(v.Spec.Drift.HealsPerMinute)
}

// MaxBreakGlass is for how long an object is exempt at most. Defaults to otherwise.
func (v *VidraResource) MaxBreakGlass(otherwise time.Duration) time.Duration {
	if v.Spec.Drift == nil || v.Spec.Drift.MaxBreakGlass == nil {
		return otherwise
	}
	return v.Spec.Drift.MaxBreakGlass.Duration
}
