package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Finalizer keeps a deleted VidraResource until what it applied is gone.
	Finalizer = "vidraresource.infrahub.operators.com/finalizer"

	// ManagedByLabel with the value ManagedByValue stands on every managed
	// object. The watches filter on it, on the server.
	ManagedByLabel = "managed-by"
	// ManagedByValue is the value of ManagedByLabel.
	ManagedByValue = "vidra"

	// OwnerAnnotation is where the first Vidra operator noted the owners of an
	// object: names of VidraResources, separated by commas. It is read, to take
	// such objects over, and never written.
	OwnerAnnotation = "vidraresource.infrahub.operators.com/owned-by"
	// OwnerAnnotationPrefix begins the annotation that each owner of an object
	// sets; a slash and a key made from the name of the VidraResource follow, and
	// the value is that name. One key per owner lets several own one object.
	OwnerAnnotationPrefix = "owner.vidraresource.infrahub.operators.com"

	// LocalServer is the server of a destination that means the cluster that
	// the operator itself watches; an empty server means the same.
	LocalServer = "https://kubernetes.default.svc"

	// DefaultInterval is the resync interval when spec.interval is not set.
	DefaultInterval = 10 * time.Minute
)

// VidraResourceSpec says which objects must exist, where, and how they are
// kept that way.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.serviceAccountName) || self.serviceAccountName == "" || self.?destination.?namespace.orValue("") != ""`,message="serviceAccountName names a ServiceAccount in spec.destination.namespace: set that, too"
type VidraResourceSpec struct {
	// Destination is where the objects live.
	// +optional
	// +kubebuilder:default:={}
	Destination Destination `json:"destination,omitempty"`

	// Manifest holds the objects, as YAML documents or JSON. Objects without a
	// namespace get the namespace of the destination.
	// +optional
	Manifest string `json:"manifest,omitempty"`

	// ManifestFrom names ConfigMaps and Secrets that hold more of the manifest, each
	// part documents of its own, in this order behind spec.manifest. They are read in
	// the cluster that Vidra runs in, and when one changes, it is read again. Objects
	// from a Secret get the annotation infrahub.operators.com/sensitive: "true", which
	// withholds their values from Events and conditions, unless they have it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ManifestFrom []ManifestSource `json:"manifestFrom,omitempty"`

	// ServiceAccountName is the ServiceAccount, in the namespace of the destination,
	// that the objects are read and written as. What it may not do, Vidra does not do
	// for this VidraResource. Without it Vidra uses its own rights.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Wait has Ready wait until the objects are healthy, as kstatus reads them. When
	// false, the condition Healthy tells of it and Ready does not depend on it.
	// +optional
	Wait bool `json:"wait,omitempty"`

	// Force has an object that cannot be changed, because an immutable field of it
	// differs, deleted and created again, once for each configuration. It never does so
	// to a Namespace, CustomResourceDefinition, PersistentVolume, PersistentVolumeClaim
	// or StatefulSet without the annotation
	// vidraresource.infrahub.operators.com/allow-recreate: "true", to an object with the
	// annotation vidraresource.infrahub.operators.com/keep: "true", or under break-glass.
	// +optional
	Force bool `json:"force,omitempty"`

	// Interval between two comparisons of every object with the manifest, in
	// addition to the events of the watches. It is jittered by a tenth.
	// +optional
	// +kubebuilder:default:="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="interval must be at least 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Adopt says what is done about an object that exists and that no VidraResource
	// owns.
	// +optional
	// +kubebuilder:default:=IfIdentical
	Adopt AdoptPolicy `json:"adopt,omitempty"`

	// Prune deletes what leaves the manifest, once all that is in it is applied. What
	// another owner keeps, and what is being deleted, does not hold that back. When
	// false, what leaves the manifest is left in place, as nobody's.
	// +optional
	// +kubebuilder:default:=true
	Prune *bool `json:"prune,omitempty"`

	// DeletionPolicy says what becomes of the objects when the VidraResource is
	// deleted.
	// +optional
	// +kubebuilder:default:=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Suspend has Vidra write no object: a changed manifest waits, and what somebody
	// changes is reported and not put back. A VidraResource that is deleted meanwhile
	// waits, too: set suspend to false, or deletionPolicy to Orphan.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Drift says what is done when somebody changes an object.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// ReconciledAt is accepted and ignored: the first Vidra operator wrote it to
	// trigger itself.
	// +optional
	// +nullable
	ReconciledAt *metav1.Time `json:"reconciledAt,omitempty"`
}

// ManifestSource is one key of a ConfigMap or Secret that holds a part of a manifest.
type ManifestSource struct {
	// Kind is ConfigMap or Secret.
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// Name of the ConfigMap or Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the ConfigMap or Secret. Defaults to the namespace of the
	// destination.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Key under which the part stands in data (for a ConfigMap, binaryData, too).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
	// Optional has a missing object or key count as an empty part. Otherwise nothing
	// is applied or removed before it is there.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Destination is where the objects of a VidraResource live.
//
// +kubebuilder:validation:XValidation:rule=`has(self.server) == has(oldSelf.server) || (has(self.server) ? self.server : oldSelf.server) in ["", "https://kubernetes.default.svc"]`,message="server cannot change, because the objects would stay behind in the old cluster: create another VidraResource and delete this one"
type Destination struct {
	// Server is the URL of the API server. Empty and
	// https://kubernetes.default.svc both mean the cluster that Vidra runs in. Another
	// one is reached with the kubeconfig in the Secret with the label
	// cluster-kubeconfig whose server is this URL. It cannot change.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="server must not contain white space"
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf || self in ["", "https://kubernetes.default.svc"] && oldSelf in ["", "https://kubernetes.default.svc"]`,message="server cannot change, because the objects would stay behind in the old cluster: create another VidraResource and delete this one"
	Server string `json:"server,omitempty"`

	// Namespace is the namespace of the objects that name none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a DNS label"
	Namespace string `json:"namespace,omitempty"`

	// ReconcileOnEvents watches the managed objects and puts back what changes
	// at once. When false, changes are found at the next interval.
	// +optional
	// +kubebuilder:default:=true
	ReconcileOnEvents *bool `json:"reconcileOnEvents,omitempty"`
}

// DeployState is the one-word summary that the first Vidra operator defined.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Stale
type DeployState string

const (
	// DeployPending says that objects wait for something that is not there yet.
	DeployPending DeployState = "Pending"
	// DeployRunning says that a pass is under way.
	DeployRunning DeployState = "Running"
	// DeploySucceeded says that every object is applied and in order.
	DeploySucceeded DeployState = "Succeeded"
	// DeployFailed says that lastError has to be acted on.
	DeployFailed DeployState = "Failed"
	// DeployStale says that an object that left the manifest cannot be removed, or
	// that objects are left as somebody changed them.
	DeployStale DeployState = "Stale"
)

// ObjectState says what became of one managed object.
// +kubebuilder:validation:Enum=Pending;Applied;Drifted;Contended;Failed;Deleting
type ObjectState string

const (
	// ObjectPending is an object that is about to be applied, or whose kind is
	// not served yet.
	ObjectPending ObjectState = "Pending"
	// ObjectApplied is an object that the API server holds as the manifest says.
	ObjectApplied ObjectState = "Applied"
	// ObjectDrifted is an object that was changed and is left so for now: because
	// of the policy, the suspension, or its break-glass annotation.
	ObjectDrifted ObjectState = "Drifted"
	// ObjectContended is an object that another writer keeps changing: a field of it was
	// reverted more often within a minute than spec.drift.healsPerMinute says.
	ObjectContended ObjectState = "Contended"
	// ObjectFailed is an object that the API server did not accept, or that
	// could not be removed.
	ObjectFailed ObjectState = "Failed"
	// ObjectDeleting is an object that left the manifest and is not gone yet.
	ObjectDeleting ObjectState = "Deleting"
)

// ManagedResourceStatus is one entry of the inventory.
type ManagedResourceStatus struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// APIVersion of the object, as the manifest has it.
	APIVersion string `json:"apiVersion"`
	// Name of the object.
	Name string `json:"name"`
	// Namespace of the object; empty for cluster-scoped kinds.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// UID of the object when it was last applied.
	// +optional
	UID string `json:"uid,omitempty"`
	// Digest of the fields that this VidraResource owns in the object, with
	// their values, after the last apply. That of a Secret, of an object with the annotation
	// infrahub.operators.com/sensitive and of one with environment variables is sealed
	// with a key of the operator, so that no value can be guessed from it.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Configuration identifies what was last applied: the object in the manifest,
	// and the rules for it. Sealed as Digest is.
	// +optional
	Configuration string `json:"configuration,omitempty"`
	// State of the object.
	// +optional
	State ObjectState `json:"state,omitempty"`
	// Recreated is the last time that spec.force had the object deleted, to be created
	// again. It is written before the deletion, and kept while that configuration is
	// applied.
	// +optional
	Recreated *RecreatedStatus `json:"recreated,omitempty"`
	// BreakGlass is the answer to the break-glass annotations of the object.
	// +optional
	BreakGlass *BreakGlassStatus `json:"breakGlass,omitempty"`
}

// RecreatedStatus identifies an object that spec.force had deleted.
type RecreatedStatus struct {
	// Configuration for which the object was deleted.
	Configuration string `json:"configuration"`
	// UID of the object that was deleted. Another object is not deleted for the same
	// configuration.
	UID string `json:"uid"`
}

// DriftStatus counts what was put back.
type DriftStatus struct {
	// Heals is how often a managed object was put back.
	// +optional
	Heals int64 `json:"heals,omitempty"`
	// LastHealTime is when a managed object was last put back.
	// +optional
	LastHealTime *metav1.Time `json:"lastHealTime,omitempty"`
	// LastHeal says what was put back last.
	// +optional
	LastHeal *Heal `json:"lastHeal,omitempty"`
}

// Heal is one object that was put back.
type Heal struct {
	// Object that was put back: kind, namespace and name.
	Object string `json:"object"`
	// Fields that were put back, at most ten. None for an object that had been
	// deleted.
	// +optional
	// +listType=atomic
	Fields []string `json:"fields,omitempty"`
	// Added are the fields and list items that the same edit had added, at most ten. They
	// were removed.
	// +optional
	// +listType=atomic
	Added []string `json:"added,omitempty"`
	// Manager is the field manager that had changed the object, where the API
	// server recorded one.
	// +optional
	Manager string `json:"manager,omitempty"`
}

// VidraResourceStatus is what became of the manifest.
type VidraResourceStatus struct {
	// ManagedResources is the inventory: every object that Vidra applied for
	// this VidraResource, or is about to, until it is gone.
	// +optional
	// +listType=atomic
	ManagedResources []ManagedResourceStatus `json:"managedResources,omitempty"`

	// DeployState summarizes the last pass in one word.
	// +optional
	DeployState DeployState `json:"DeployState,omitempty"`
	// LastError is the message of the last problem that still stands, or may; empty when
	// all is well.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// LastSyncTime is when the manifest was last applied in full.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Watching, Drifted, Healthy and, while they are true,
	// Reconciling, Stalled, Suspended, UnmatchedIgnoreRules and Warnings.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Objects is how many objects are in the inventory.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// Drift counts what was put back.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
}

// VidraResource is a set of Kubernetes objects that Vidra applies, watches and
// puts back when somebody changes them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vr
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Drift",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Heals",type=integer,JSONPath=`.status.drift.heals`
// +kubebuilder:printcolumn:name="Last heal",type=date,JSONPath=`.status.drift.lastHealTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Healthy",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type VidraResource struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	// +kubebuilder:default:={}
	Spec VidraResourceSpec `json:"spec,omitempty"`
	// +optional
	Status VidraResourceStatus `json:"status,omitempty"`
}

// VidraResourceList is a list of VidraResources.
//
// +kubebuilder:object:root=true
type VidraResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VidraResource `json:"items"`
}

// WatchesEvents says whether the managed objects are watched. Defaults to true.
func (v *VidraResource) WatchesEvents() bool {
	on := v.Spec.Destination.ReconcileOnEvents
	return on == nil || *on
}

// ResyncInterval is the time between two comparisons of every object. Defaults
// to DefaultInterval.
func (v *VidraResource) ResyncInterval() time.Duration {
	if v.Spec.Interval == nil || v.Spec.Interval.Duration <= 0 {
		return DefaultInterval
	}
	return v.Spec.Interval.Duration
}
