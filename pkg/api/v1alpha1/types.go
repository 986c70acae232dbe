package v1alpha1

import (
	"cmp"
	"time"

	"github.com/fluxcd/pkg/apis/kustomize"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// Finalizer of each VidraResource: a deleted one stays until its objects are removed.
	Finalizer = "vidraresource.infrahub.operators.com/finalizer"

	// ManagedByLabel is a label of every managed object, with the value "vidra"
	// (ManagedByValue). The watches select by it, on the API server.
	ManagedByLabel = "managed-by"
	// ManagedByValue is the value of ManagedByLabel.
	ManagedByValue = "vidra"

	// OwnerAnnotation is an annotation of the first Vidra operator: the names of the
	// VidraResources that own an object, separated by commas. Vidra reads it, to adopt such
	// objects, and never writes it.
	OwnerAnnotation = "vidraresource.infrahub.operators.com/owned-by"
	// OwnerAnnotationPrefix is the prefix of the annotation that each owner sets on an
	// object. A slash and a key made from the name of the VidraResource follow; the value
	// is that name.
	OwnerAnnotationPrefix = "owner.vidraresource.infrahub.operators.com"

	// InstallationLabel is the label of a VidraResource that names the installation that
	// reconciles it, see the flag --installation. The default one reconciles those without it.
	InstallationLabel = "vidraresource.infrahub.operators.com/installation"

	// LocalServer is the server of a destination that means the cluster that
	// the operator itself watches; an empty server means the same.
	LocalServer = "https://kubernetes.default.svc"

	// DefaultInterval is the resync interval when neither spec.interval nor the flag
	// --default-interval is set.
	DefaultInterval = 10 * time.Minute
	// MinInterval is the shortest resync interval.
	MinInterval = 10 * time.Second
)

// VidraResourceSpec is which objects must exist, in which cluster, and what Vidra does
// when one of them changes.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.kustomize) || has(self.manifestFrom) && self.manifestFrom.exists(m, !(m.kind in ["ConfigMap", "Secret"]))`,message="kustomize changes the objects of sources of Flux alone: name one in manifestFrom, or remove kustomize"
// +kubebuilder:validation:XValidation:rule=`!has(self.serviceAccountName) || self.serviceAccountName == "" || self.?destination.?namespace.orValue("") != ""`,message="serviceAccountName names a ServiceAccount in spec.destination.namespace: set that, too"
type VidraResourceSpec struct {
	// Destination is the cluster and the default namespace of the objects.
	// +optional
	// +kubebuilder:default:={}
	Destination Destination `json:"destination,omitempty"`

	// Manifest holds the objects, as YAML documents or JSON. Items of List kinds count as
	// objects. Objects without a namespace get the namespace of the destination. The
	// VidraResource and its status, which has an entry for each object, must fit into
	// 1.4 MB together. Larger manifests are possible with manifestFrom.
	// +optional
	Manifest string `json:"manifest,omitempty"`

	// ManifestFrom names ConfigMaps, Secrets and sources of Flux with further parts of the manifest, in
	// this order after spec.manifest. Each part has complete documents. Vidra reads them
	// in the cluster that it runs in, and reads a part again when it changes. All parts
	// together may have 8 MiB and 5,000 objects. Objects from a Secret get the annotation
	// infrahub.operators.com/sensitive: "true", which withholds their values from Events
	// and conditions, unless the manifest sets that annotation.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ManifestFrom []ManifestSource `json:"manifestFrom,omitempty"`

	// Kustomize changes the objects of the sources of Flux, as the fields of the same names of a Kustomization of
	// Flux do. Objects of spec.manifest, ConfigMaps and Secrets stay as they are.
	// +optional
	Kustomize *Kustomize `json:"kustomize,omitempty"`

	// ServiceAccountName is the ServiceAccount in the namespace of the destination that
	// Vidra impersonates to read and write the objects. Without it Vidra uses its own
	// rights. Watches always use the rights of Vidra.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serviceAccountName must be the name of a ServiceAccount, without its namespace"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// DependsOn names other VidraResources. Vidra applies no new manifest of this one, and removes nothing of it, until
	// they are Ready at their current generation; edits of its objects are reverted meanwhile. A VidraResource that is
	// deleted waits for those that depend on it: for 10 minutes while they are being deleted, and else for one.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	DependsOn []Dependency `json:"dependsOn,omitempty"`

	// HealthChecks compute the health of objects of kinds that kstatus misjudges, by expressions of the Common Expression
	// Language, as spec.healthCheckExprs of a Kustomization of Flux does.
	// +optional
	// +listType=map
	// +listMapKey=apiVersion
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=16
	HealthChecks []HealthCheck `json:"healthChecks,omitempty"`

	// Revision is the handling of new revisions of the manifest.
	// +optional
	Revision *RevisionPolicy `json:"revision,omitempty"`

	// RevisionHistoryLimit is the number of former applied revisions of the manifest that are kept for spec.revision.to, in
	// addition to the applied one. 0 keeps none. Defaults to 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// Wait makes Ready depend on the health of the objects, as kstatus and spec.healthChecks compute it. When
	// false, only the condition Healthy reports it.
	// +optional
	Wait bool `json:"wait,omitempty"`

	// Force lets Vidra delete an object and create it again when an immutable field of it
	// differs from the manifest: once for each configuration of the object. Vidra never
	// does this to a Namespace, CustomResourceDefinition, PersistentVolume,
	// PersistentVolumeClaim or StatefulSet without the annotation
	// vidraresource.infrahub.operators.com/allow-recreate: "true", to an object with the
	// annotation vidraresource.infrahub.operators.com/keep: "true", or under break-glass.
	// +optional
	Force bool `json:"force,omitempty"`

	// Interval between two comparisons of all objects with the manifest, in addition to
	// the events of the watches. Each interval is longer by a random part of up to a tenth.
	// Defaults to the operator's --default-interval, 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="interval must be at least 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Adopt is the response to an object of the manifest that exists already and that
	// no VidraResource owns: IfIdentical takes it if the apply changes no field, Always
	// takes and changes it, Never refuses it.
	// +optional
	// +kubebuilder:default:=IfIdentical
	Adopt AdoptPolicy `json:"adopt,omitempty"`

	// Prune deletes the objects that left the manifest, once all objects of the manifest
	// are applied. Objects that another owner keeps, and objects that are being deleted, do
	// not delay that. When false, objects that left the manifest stay and are unmanaged.
	// +optional
	// +kubebuilder:default:=true
	Prune *bool `json:"prune,omitempty"`

	// DeletionPolicy is the fate of the objects after the deletion of the VidraResource:
	// Delete deletes them, Orphan leaves them in place, unmanaged.
	// +optional
	// +kubebuilder:default:=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// UnmanagedContents is the rule for the removal of a Namespace or CustomResourceDefinition that holds
	// objects which no VidraResource manages: Delete has them deleted with it, Block keeps it until they are gone.
	// Objects of other VidraResources always keep it, and so do objects with the annotation
	// vidraresource.infrahub.operators.com/keep: "true".
	// +optional
	// +kubebuilder:default:=Delete
	UnmanagedContents UnmanagedContents `json:"unmanagedContents,omitempty"`

	// Suspend makes Vidra write no object: a changed manifest is not applied, and changes of
	// objects are reported and not reverted. The deletion of a suspended VidraResource
	// waits until suspend is false or deletionPolicy is Orphan.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Drift is the response to a change of an object by a user or a program.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`

	// ReconciledAt requests a reconcile of all objects, as the annotation
	// vidraresource.infrahub.operators.com/reconcile-requested-at does. The first Vidra
	// operator wrote it to trigger itself.
	// +optional
	// +nullable
	ReconciledAt *metav1.Time `json:"reconciledAt,omitempty"`
}

// RevisionPolicy is the handling of new revisions of the manifest: in the spec, in ConfigMaps and Secrets, and in sources of Flux.
//
// +kubebuilder:validation:XValidation:rule="!has(self.to) || has(self.hold) && self.hold",message="to needs hold: true, because the manifest of the spec waits meanwhile"
type RevisionPolicy struct {
	// Hold has a new revision wait until Hold is false: Vidra creates, changes and removes nothing for it, and reverts
	// edits to the applied one. Set it before the manifest changes.
	// +optional
	Hold bool `json:"hold,omitempty"`
	// To is the number of an earlier applied revision in status.revision.kept. Vidra applies it instead of the manifest of the
	// spec, which waits until Hold is false and To is absent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	To int64 `json:"to,omitempty"`
}

// Dependency is a VidraResource that has to be Ready before another one is applied.
type Dependency struct {
	// Name of the VidraResource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be the name of a VidraResource: lower case letters, digits, dashes and dots"
	Name string `json:"name"`
}

// HealthCheck is the health of the objects of one kind. The first expression that is true decides, in the order inProgress, failed,
// current; an object without one is InProgress. So is an object whose status.observedGeneration is not its generation.
//
// The fields of the object are the variables of the expressions, such as status and metadata.
type HealthCheck struct {
	// APIVersion of the kind. Its version does not matter.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([-a-z0-9.]+/)?[a-z][a-z0-9]*$')",message="apiVersion must be a group and a version, such as example.com/v1, or v1"
	APIVersion string `json:"apiVersion"`
	// Kind of the objects.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Z][A-Za-z0-9]*$')",message="kind must be a kind, such as Deployment"
	Kind string `json:"kind"`
	// Current is an expression that is true when the object is as its spec says.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Current string `json:"current"`
	// InProgress is an expression that is true while the object is on the way there.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	InProgress string `json:"inProgress,omitempty"`
	// Failed is an expression that is true when the object does not get there by itself.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Failed string `json:"failed,omitempty"`
}

// UnmanagedContents is the fate of unmanaged objects in a Namespace or CustomResourceDefinition that is to be removed.
// +kubebuilder:validation:Enum=Delete;Block
type UnmanagedContents string

const (
	// UnmanagedDelete has them deleted. It is the default.
	UnmanagedDelete UnmanagedContents = "Delete"
	// UnmanagedBlock keeps the Namespace or CustomResourceDefinition until they are gone.
	UnmanagedBlock UnmanagedContents = "Block"
)

// Blocks reports whether unmanaged objects keep their Namespace or CustomResourceDefinition, also by a value that only another version knows.
func (u UnmanagedContents) Blocks() bool { return cmp.Or(u, UnmanagedDelete) != UnmanagedDelete }

// ManifestSource is a part of a manifest: one key of a ConfigMap or Secret, or one path of the artifact of a source of Flux.
//
// +kubebuilder:validation:XValidation:rule=`(self.kind in ["ConfigMap", "Secret"]) == has(self.key)`,message="a ConfigMap or Secret needs key, and the other kinds have none"
// +kubebuilder:validation:XValidation:rule=`!has(self.path) || !(self.kind in ["ConfigMap", "Secret"])`,message="path is for sources of Flux: a ConfigMap or Secret has key"
// +kubebuilder:validation:XValidation:rule=`!has(self.optional) || !self.optional || self.kind in ["ConfigMap", "Secret"]`,message="optional is for ConfigMaps and Secrets: what a source of Flux held would be removed when it is away"
type ManifestSource struct {
	// Kind is ConfigMap or Secret, or a kind of Flux (source.toolkit.fluxcd.io): GitRepository, OCIRepository, Bucket
	// or ExternalArtifact.
	// +kubebuilder:validation:Enum=ConfigMap;Secret;GitRepository;OCIRepository;Bucket;ExternalArtifact
	// +kubebuilder:validation:MaxLength=32
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be the name of an object: lower case letters, digits, dashes and dots"
	Name string `json:"name"`
	// Namespace of the object. Defaults to the namespace of the destination. A source of Flux must be in
	// that namespace, unless the operator runs with --allow-cross-namespace-sources.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a DNS label"
	Namespace string `json:"namespace,omitempty"`
	// Key of the part in data; for a ConfigMap, also in binaryData.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="key must be one of data: letters, digits, dashes, underscores and dots"
	Key string `json:"key,omitempty"`
	// Path of a directory in the artifact of a source of Flux, or of one YAML file. A directory with a kustomization is built. Of
	// another one all YAML files are read, those of its directories too, in the order of their paths. Defaults to the
	// whole artifact.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule=`!self.matches('(^|/)[.][.](/|$)')`,message="path must be within the artifact: it must not contain .."
	Path string `json:"path,omitempty"`
	// Optional makes a missing object or key count as an empty part. What it held is removed when it has not
	// existed for 15 seconds, unless its namespace does not exist either. A part that exists must hold
	// objects. Otherwise Vidra applies no new manifest and removes nothing until the part exists. Edits are reverted
	// meanwhile to what was read last, unless the spec changed or Vidra was restarted.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Kustomize is how the files of an artifact are built. Its fields have the meaning of those of a Kustomization of Flux
// (kustomize.toolkit.fluxcd.io); substitute and substituteFrom are below postBuild there.
type Kustomize struct {
	// Patches are strategic merge patches and JSON patches, with the objects that they change.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Patches []kustomize.Patch `json:"patches,omitempty"`
	// Images replaces names, tags and digests of images.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Images []kustomize.Image `json:"images,omitempty"`
	// NamePrefix is put before the names of all objects.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	NamePrefix string `json:"namePrefix,omitempty"`
	// NameSuffix is put behind the names of all objects.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	NameSuffix string `json:"nameSuffix,omitempty"`
	// CommonMetadata are labels and annotations of all objects.
	// +optional
	CommonMetadata *CommonMetadata `json:"commonMetadata,omitempty"`
	// TargetNamespace is the namespace of all namespaced objects, whichever they name.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="targetNamespace must be a DNS label"
	TargetNamespace string `json:"targetNamespace,omitempty"`
	// Components are directories with kustomize components, relative to path.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=1024
	Components []string `json:"components,omitempty"`
	// IgnoreMissingComponents leaves out components that are absent.
	// +optional
	IgnoreMissingComponents bool `json:"ignoreMissingComponents,omitempty"`
	// Substitute are the values of variables such as ${NAME} in the built objects. An object with the label or annotation
	// kustomize.toolkit.fluxcd.io/substitute: disabled keeps its text.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Substitute map[string]string `json:"substitute,omitempty"`
	// SubstituteFrom names ConfigMaps and Secrets in the namespace of the destination, each key of which is a variable. Later ones
	// replace earlier ones, and substitute replaces both. Objects that use a variable of a Secret get the annotation
	// infrahub.operators.com/sensitive: "true".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	SubstituteFrom []SubstituteReference `json:"substituteFrom,omitempty"`
}

// CommonMetadata are labels and annotations.
type CommonMetadata struct {
	// Annotations of all objects.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of all objects.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// SubstituteReference is a ConfigMap or Secret with variables.
type SubstituteReference struct {
	// Kind is ConfigMap or Secret.
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// Name of the ConfigMap or Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be the name of a ConfigMap or Secret: lower case letters, digits, dashes and dots"
	Name string `json:"name"`
	// Optional makes a missing object count as one without variables.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// Destination is the cluster and the default namespace of the objects of a VidraResource.
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

	// ReconcileOnEvents makes Vidra watch the objects and revert changes at once. When
	// false, changes are found at the next interval.
	// +optional
	// +kubebuilder:default:=true
	ReconcileOnEvents *bool `json:"reconcileOnEvents,omitempty"`
}

// DeployState is the one-word summary that the first Vidra operator defined.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Stale
type DeployState string

const (
	// DeployPending means that objects wait for something that does not exist yet.
	DeployPending DeployState = "Pending"
	// DeployRunning means that a reconcile is in progress.
	DeployRunning DeployState = "Running"
	// DeploySucceeded means that every object is applied as the manifest says.
	DeploySucceeded DeployState = "Succeeded"
	// DeployFailed means that lastError needs action.
	DeployFailed DeployState = "Failed"
	// DeployStale means that an object that left the manifest cannot be removed, or that
	// changes of objects are not reverted for now.
	DeployStale DeployState = "Stale"
)

// ObjectState is the state of one managed object.
// +kubebuilder:validation:Enum=Pending;Applied;Drifted;Contended;Failed;Deleting;Completed
type ObjectState string

const (
	// ObjectPending is an object that is about to be applied, or whose kind is
	// not served yet.
	ObjectPending ObjectState = "Pending"
	// ObjectApplied is an object that the API server holds as the manifest says.
	ObjectApplied ObjectState = "Applied"
	// ObjectDrifted is an object whose change is not reverted for now: because of
	// spec.drift, spec.suspend, or its break-glass annotations.
	ObjectDrifted ObjectState = "Drifted"
	// ObjectContended is an object that another writer keeps changing: a field of it was
	// reverted more often within a minute than spec.drift.healsPerMinute says.
	ObjectContended ObjectState = "Contended"
	// ObjectFailed is an object that the API server did not accept, or that
	// could not be removed.
	ObjectFailed ObjectState = "Failed"
	// ObjectDeleting is an object that left the manifest and still exists.
	ObjectDeleting ObjectState = "Deleting"
	// ObjectCompleted is an object that ended successfully and was removed by its own controller. It is created
	// again when its configuration changes.
	ObjectCompleted ObjectState = "Completed"
)

// ObjectHealth is the health of an object, as kstatus or spec.healthChecks compute it.
type ObjectHealth string

// Healths of objects.
const (
	// ObjectCurrent is an object that is healthy.
	ObjectCurrent ObjectHealth = "Current"
	// ObjectInProgress is an object that is not healthy yet.
	ObjectInProgress ObjectHealth = "InProgress"
	// ObjectUnhealthy is an object that has failed.
	ObjectUnhealthy ObjectHealth = "Failed"
)

// MaxObjectMessage is how many bytes the message of an entry of the inventory has.
const MaxObjectMessage = 256

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
	// Configuration identifies the last applied configuration: the object in the manifest,
	// and the rules for it. Sealed as Digest is.
	// +optional
	Configuration string `json:"configuration,omitempty"`
	// Aggregated reports that an extension API server serves the kind. No CustomResourceDefinition shows then
	// whether objects of the kind still exist while it is unserved.
	// +optional
	Aggregated bool `json:"aggregated,omitempty"`
	// RemoveAs is the ServiceAccount, as NAMESPACE/NAME, that removes the object if that of the spec may not: one
	// change of the spec replaced that account and took the object from the manifest.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	RemoveAs string `json:"removeAs,omitempty"`
	// Sensitive is whether the object has the annotation infrahub.operators.com/sensitive, or had it since its
	// manifest changed last: then no values of the object are shown.
	// +optional
	Sensitive bool `json:"sensitive,omitempty"`
	// Others identifies the fields that other field managers own in the object, without those of its
	// status: a hash of each path. While an edit is not reverted, it has those from before the edit. An
	// operator that starts reads it, to leave them when it undoes an edit that was made meanwhile. Sealed as
	// Digest is. None where they are unknown, for more than 64 fields, and for some of the objects where
	// there are thousands.
	// +optional
	Others string `json:"others,omitempty"`
	// State of the object.
	// +optional
	State ObjectState `json:"state,omitempty"`
	// Health of the object, as its own status shows it: Current, InProgress or Failed. None while
	// it is unknown, and for some of the objects where there are thousands.
	// +optional
	Health ObjectHealth `json:"health,omitempty"`
	// Succeeded is true once the object has ended successfully, if its own controller removes it then.
	// +optional
	Succeeded bool `json:"succeeded,omitempty"`
	// Message of the worst problem of the object that problems lists, of which it has at most 256
	// bytes. None if there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
	// Recreated identifies the object that Vidra last deleted because of spec.force. It is
	// written before the deletion, and kept while that configuration is applied. It also
	// identifies an object that Vidra deletes because it has left the manifest: before the
	// deletion with spec.drift.mode Warn or Ignore, and with each mode while the manifest has it
	// again and it cannot be created.
	// +optional
	Recreated *RecreatedStatus `json:"recreated,omitempty"`
	// BreakGlass is the answer to the break-glass annotations of the object.
	// +optional
	BreakGlass *BreakGlassStatus `json:"breakGlass,omitempty"`
}

// RecreatedStatus identifies an object that Vidra deleted, and that it creates again.
type RecreatedStatus struct {
	// Configuration at the deletion of the object because of spec.force; empty for an object that
	// had left the manifest.
	Configuration string `json:"configuration"`
	// UID of the object that was deleted. Another object is not deleted for the same
	// configuration.
	UID string `json:"uid"`
}

// AppliedAsStatus is the ServiceAccount of a generation of the spec.
type AppliedAsStatus struct {
	// ServiceAccount as NAMESPACE/NAME.
	// +kubebuilder:validation:MaxLength=317
	ServiceAccount string `json:"serviceAccount"`
	// Generation of the spec that names it.
	Generation int64 `json:"generation"`
}

// SourceStatus is the revision of a source of Flux.
type SourceStatus struct {
	// Kind of the source.
	Kind string `json:"kind"`
	// Namespace of the source.
	Namespace string `json:"namespace"`
	// Name of the source.
	Name string `json:"name"`
	// Path in the artifact; empty for the whole artifact.
	// +optional
	Path string `json:"path,omitempty"`
	// Revision of the artifact, such as main@sha1:5a1f.
	Revision string `json:"revision"`
	// Digest of the artifact.
	Digest string `json:"digest"`
}

// String returns for example "GitRepository shop/web, revision main@sha1:5a1f, path deploy".
func (s SourceStatus) String() string {
	text := s.Kind + " " + s.Namespace + "/" + s.Name + ", revision " + s.Revision
	if s.Path != "" {
		text += ", path " + s.Path
	}
	return text
}

// RevisionStatus has the applied revisions of the manifest.
type RevisionStatus struct {
	// Applied is the number of the revision that was last applied in full; absent if none is known.
	// +optional
	Applied int64 `json:"applied,omitempty"`
	// Waiting is the revision that waits for spec.revision.hold: false. None if the manifest is applied, and while
	// spec.revision.to is set.
	// +optional
	Waiting *WaitingRevision `json:"waiting,omitempty"`
	// Kept are the applied revisions whose contents are kept, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=21
	Kept []AppliedRevision `json:"kept,omitempty"`
}

// AppliedRevision is a revision of the manifest that was applied in full.
type AppliedRevision struct {
	// Number of the revision. A later revision has a higher one.
	Number int64 `json:"number"`
	// Digest of the manifest, sealed with a key of the operator, so that no value can be guessed from it.
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest"`
	// Source has the revisions of the sources of Flux in at most 256 bytes, or the generation of the spec where there are none.
	// +kubebuilder:validation:MaxLength=256
	Source string `json:"source"`
	// Time of the first apply.
	Time metav1.Time `json:"time"`
}

// WaitingRevision is a revision of the manifest that is not applied yet.
type WaitingRevision struct {
	// Digest of the manifest, sealed as the one of an applied revision is. It is the same for the same manifest.
	// +kubebuilder:validation:MaxLength=256
	Digest string `json:"digest"`
	// Source as in an applied revision.
	// +kubebuilder:validation:MaxLength=256
	Source string `json:"source"`
}

// DriftStatus counts reverts.
type DriftStatus struct {
	// Heals is how often Vidra reverted changes of managed objects.
	// +optional
	Heals int64 `json:"heals,omitempty"`
	// LastHealTime is when Vidra last reverted a change of a managed object.
	// +optional
	LastHealTime *metav1.Time `json:"lastHealTime,omitempty"`
	// LastHeal is the last revert.
	// +optional
	LastHeal *Heal `json:"lastHeal,omitempty"`
}

// Heal is one revert of an object.
type Heal struct {
	// Object that was reverted: kind, namespace and name.
	Object string `json:"object"`
	// Fields that were reverted, at most ten. None for an object that had been deleted.
	// +optional
	// +listType=atomic
	Fields []string `json:"fields,omitempty"`
	// Added are the fields and list items that the same edit had added and that Vidra
	// removed, at most ten.
	// +optional
	// +listType=atomic
	Added []string `json:"added,omitempty"`
	// Manager is the field manager that had changed the object, where the API
	// server recorded one.
	// +optional
	Manager string `json:"manager,omitempty"`
}

// VidraResourceStatus is the state of the objects of a VidraResource.
type VidraResourceStatus struct {
	// ManagedResources is the inventory: every object that Vidra applied for
	// this VidraResource, or is about to, until it is gone. While it applies the first ones, the annotation
	// vidraresource.infrahub.operators.com/first-inventory may have them instead.
	// +optional
	// +listType=atomic
	ManagedResources []ManagedResourceStatus `json:"managedResources,omitempty"`

	// DeployState summarizes the last reconcile in one word.
	// +optional
	DeployState DeployState `json:"DeployState,omitempty"`
	// LastError is the message of the condition Ready, or of a problem that is not known to
	// be over; empty when there is none. See problems.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// FirstReadyTime is when Ready became True for the first time.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// LastSyncTime is when the manifest was last applied in full.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// Shards are the values of --watch-label-selector of the operators that reconcile the
	// VidraResource, in their canonical form: one, or several where selectors overlap. None for
	// an operator without the flag. If none of them matches the labels of the VidraResource,
	// no operator has taken it over since the labels changed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Shards []string `json:"shards,omitempty"`

	// KubeconfigDigest identifies the kubeconfig of the last connection to the
	// destination, so that a rotation is reported that was made while no operator ran. It is
	// sealed with a key of the operator, and empty for the cluster of the VidraResource.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	KubeconfigDigest string `json:"kubeconfigDigest,omitempty"`

	// ClusterUID is the UID of the Namespace kube-system of the destination when Vidra last asked for it. By it, two URLs of
	// one cluster are recognized while one of them does not answer. It is empty for the cluster of the VidraResource.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ClusterUID string `json:"clusterUID,omitempty"`

	// AppliedAs is the ServiceAccount that last read the manifest; empty for Vidra itself.
	// +optional
	AppliedAs *AppliedAsStatus `json:"appliedAs,omitempty"`

	// Source are the revisions of the sources of Flux from which the manifest was last read, in the order of
	// spec.manifestFrom.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Source []SourceStatus `json:"source,omitempty"`

	// Revision has the applied revisions of the manifest, and the one that waits.
	// +optional
	Revision *RevisionStatus `json:"revision,omitempty"`

	// LastHandledReconcileAt is the last request for a reconcile that Vidra has carried
	// out: the value of the annotation
	// vidraresource.infrahub.operators.com/reconcile-requested-at, or spec.reconciledAt if
	// that is later.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Watching, Drifted, Healthy and, while they are true,
	// Reconciling, Stalled, Suspended, UnmatchedIgnoreRules and Warnings.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Problems are the details of the conditions, one entry for each object and reason, the worst
	// first. At most 100 are listed, in at most 64 KiB.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Problems []Problem `json:"problems,omitempty"`
	// UnlistedProblems is how many further problems there are.
	// +optional
	UnlistedProblems int32 `json:"unlistedProblems,omitempty"`
	// Objects is how many objects are in the inventory.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// Drift counts reverts, and has the last one.
	// +optional
	Drift *DriftStatus `json:"drift,omitempty"`
	// History are the edits of managed objects with their results, the newest first. At most
	// 50 are listed, in at most 32 KiB. An object with many edits keeps fewer of them where others
	// need the room.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	History []HistoryEntry `json:"history,omitempty"`
	// UnlistedHistory is how many edits were in older entries, which were dropped.
	// +optional
	UnlistedHistory int64 `json:"unlistedHistory,omitempty"`
}

// VidraResource is a set of Kubernetes objects that Vidra applies and watches. When a user
// or a program changes one of them, Vidra reverts the change.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name)",message="spec.dependsOn names the VidraResource itself: remove it"
// +kubebuilder:resource:scope=Cluster,shortName=vidra;vr
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Healthy",type=string,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:printcolumn:name="Drift",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`
// +kubebuilder:printcolumn:name="Heals",type=integer,JSONPath=`.status.drift.heals`
// +kubebuilder:printcolumn:name="Last heal",type=date,JSONPath=`.status.drift.lastHealTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
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

// WatchesEvents reports whether the managed objects are watched. Defaults to true.
func (v *VidraResource) WatchesEvents() bool {
	return ptr.Deref(v.Spec.Destination.ReconcileOnEvents, true)
}

// IsReady reports whether the VidraResource is Ready at its current generation, and not being deleted.
func (v *VidraResource) IsReady() bool {
	ready := meta.FindStatusCondition(v.Status.Conditions, ConditionReady)
	return v.DeletionTimestamp.IsZero() && ready != nil && ready.Status == metav1.ConditionTrue &&
		ready.ObservedGeneration == v.Generation && v.Status.ObservedGeneration == v.Generation
}

// Holds reports whether new revisions of the manifest wait for a user.
func (v *VidraResource) Holds() bool { return v.Spec.Revision != nil && v.Spec.Revision.Hold }

// Waits reports whether the status says that the present spec is not applied yet on purpose: it is suspended, or waits for the release of a revision
// or for a dependency.
func (v *VidraResource) Waits() bool {
	reason := ""
	if ready := meta.FindStatusCondition(v.Status.Conditions, ConditionReady); ready != nil {
		reason = ready.Reason
	}
	return v.Spec.Suspend && meta.IsStatusConditionTrue(v.Status.Conditions, ConditionSuspended) ||
		v.Holds() && reason == ReasonRevisionHeld || len(v.Spec.DependsOn) > 0 && reason == ReasonDependencyNotReady
}

// RevisionTo returns the number of the earlier revision that is applied instead of the manifest of the spec; 0 if none is.
func (v *VidraResource) RevisionTo() int64 {
	if !v.Holds() {
		return 0
	}
	return v.Spec.Revision.To
}

// DefaultRevisionHistoryLimit is the default of spec.revisionHistoryLimit.
const DefaultRevisionHistoryLimit = 5

// RevisionLimit returns the number of former applied revisions that are kept.
func (v *VidraResource) RevisionLimit() int {
	return int(ptr.Deref(v.Spec.RevisionHistoryLimit, DefaultRevisionHistoryLimit))
}

// KeepsRevisions reports whether applied revisions are kept: for an earlier one to be applied, or for a hold.
func (v *VidraResource) KeepsRevisions() bool { return v.Holds() || v.RevisionLimit() > 0 }

// ResyncInterval is the time between two comparisons of every object: spec.interval, else the
// operator's default, else DefaultInterval.
func (v *VidraResource) ResyncInterval(operatorDefault time.Duration) time.Duration {
	if v.Spec.Interval != nil && v.Spec.Interval.Duration > 0 {
		return v.Spec.Interval.Duration
	}
	return cmp.Or(operatorDefault, DefaultInterval)
}
