package v1alpha1

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SyncKind is the kind of InfrahubSyncs.
const SyncKind = "InfrahubSync"

const (
	// InfrahubURLLabel on a Secret marks credentials of an Infrahub server. The value is the host of
	// spec.source.infrahubAPIURL, without the port. The keys are username and password, or token, and optionally ca.crt
	// and infrahubapiurl.
	InfrahubURLLabel = "infrahub-api-url"
	// SyncLabel on a Secret names the InfrahubSync that wrote it: it has the part of a manifest with Secrets.
	SyncLabel = "infrahubsync.infrahub.operators.com/name"
	// ArtifactAnnotation on a VidraResource, or on the Secret with a part of its manifest, identifies the content of the
	// artifact that was written last.
	ArtifactAnnotation = "infrahubsync.infrahub.operators.com/artifact"
	// SyncRequestedAtAnnotation on an InfrahubSync requests a query of the Infrahub server when its value changes. The
	// receiver of webhooks writes it.
	SyncRequestedAtAnnotation = "infrahubsync.infrahub.operators.com/sync-requested-at"
	// ConfirmRemovalAnnotation on an InfrahubSync confirms the removals that wait. The value is
	// status.pendingRemovals.confirmation.
	ConfirmRemovalAnnotation = "infrahubsync.infrahub.operators.com/confirm-removal"
)

const (
	// DefaultSyncInterval is the time between two queries when neither spec.interval nor the key requeueSyncAfter of the
	// ConfigMap with the label app=vidra is set.
	DefaultSyncInterval = time.Minute
	// MinSyncInterval is the shortest time between two queries.
	MinSyncInterval = 10 * time.Second
)

// InfrahubSyncSpec is which artifacts of an Infrahub server become VidraResources, or are published for Flux.
//
// +kubebuilder:validation:XValidation:rule=`has(self.publish) == has(oldSelf.publish)`,message="publish cannot be added or removed, because the VidraResources would stay behind: create another InfrahubSync and delete this one"
// +kubebuilder:validation:XValidation:rule=`!has(self.publish) || !has(self.template) && (!has(self.serviceAccountName) || self.serviceAccountName == "")`,message="publish makes no VidraResources: leave template and serviceAccountName out"
// +kubebuilder:validation:XValidation:rule=`!has(self.serviceAccountName) || self.serviceAccountName == "" || self.?destination.?namespace.orValue("") != ""`,message="serviceAccountName names a ServiceAccount in spec.destination.namespace: set that, too"
type InfrahubSyncSpec struct {
	// Source is the Infrahub server and the artifacts that are read there.
	Source InfrahubSyncSource `json:"source"`

	// Destination is the cluster and the default namespace of the objects in the artifacts.
	// +optional
	// +kubebuilder:default:={}
	Destination InfrahubSyncDestination `json:"destination,omitempty"`

	// Interval between two queries of the Infrahub server. Defaults to the key requeueSyncAfter of the ConfigMap with the
	// label app=vidra in the namespace of the operator, else 1m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="interval must be at least 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Suspend stops the queries. The VidraResources stay as they are, and Vidra heals their objects.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// ServiceAccountName is spec.serviceAccountName of the VidraResources: the ServiceAccount in the namespace of the
	// destination that reads and writes the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serviceAccountName must be the name of a ServiceAccount, without its namespace"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// Prune is what happens with the VidraResource of an artifact that the Infrahub server no longer lists: Automatic
	// deletes it, Confirm waits for the annotation infrahubsync.infrahub.operators.com/confirm-removal. With Automatic,
	// removals wait for the annotation, too, when the server lists no artifact any more, or when more than half of the
	// VidraResources would be deleted.
	// +optional
	// +kubebuilder:default:=Automatic
	Prune SyncPrune `json:"prune,omitempty"`

	// Template has further fields of the VidraResources.
	// +optional
	Template *VidraResourceTemplate `json:"template,omitempty"`

	// Publish has the artifacts published as one ExternalArtifact of Flux, with a file for each of them, instead of applied by
	// VidraResources. It needs an operator with the flags --infrahub-publish-bind-address and --infrahub-publish-url. It cannot be added or removed later.
	// +optional
	Publish *InfrahubSyncPublish `json:"publish,omitempty"`
}

// InfrahubSyncPublish is the ExternalArtifact of an InfrahubSync.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name)",message="name cannot change, because the ExternalArtifact would stay behind: create another InfrahubSync and delete this one"
type InfrahubSyncPublish struct {
	// Namespace of the ExternalArtifact. It cannot change.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a DNS label"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace cannot change, because the ExternalArtifact would stay behind: create another InfrahubSync and delete this one"
	Namespace string `json:"namespace"`

	// Name of the ExternalArtifact. Defaults to the name of the InfrahubSync. It cannot change.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="name must be the name of an object"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name cannot change, because the ExternalArtifact would stay behind: create another InfrahubSync and delete this one"
	Name string `json:"name,omitempty"`
}

// SyncPrune is the fate of VidraResources after their artifacts left the list.
// +kubebuilder:validation:Enum=Automatic;Confirm
type SyncPrune string

const (
	// SyncPruneAutomatic deletes them, unless the server lists none or they are more than half. It is the default.
	SyncPruneAutomatic SyncPrune = "Automatic"
	// SyncPruneConfirm waits for a confirmation.
	SyncPruneConfirm SyncPrune = "Confirm"
)

// Waits reports whether each removal waits for a confirmation, also by a value that only another version knows.
func (p SyncPrune) Waits() bool { return cmp.Or(p, SyncPruneAutomatic) != SyncPruneAutomatic }

// InfrahubSyncSource is an Infrahub server and the artifacts that are read there.
type InfrahubSyncSource struct {
	// InfrahubAPIURL is the URL of the Infrahub server, such as https://infrahub.example.com. The credentials are those of
	// the Secret with the label infrahub-api-url whose value is the host.
	// +kubebuilder:validation:Pattern=`^(http|https)://[a-zA-Z0-9.-]+(:[0-9]+)?(?:/[a-zA-Z0-9-]+)*/?$`
	// +kubebuilder:validation:MaxLength=2048
	InfrahubAPIURL string `json:"infrahubAPIURL"`

	// TargetBranch is the branch in Infrahub.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:default:=main
	TargetBranch string `json:"targetBranch,omitempty"`

	// TargetDate is the point in time of the artifacts: RFC 3339, such as 2025-01-01T00:00:00Z, or relative to now,
	// such as now-2h or -2d, with the units s, m, h, d and w. Without it, the artifacts of now.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([a-zA-Z]*-[0-9]{1,5}[smhdw]|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2}))?$`
	TargetDate string `json:"targetDate,omitempty"`

	// ArtifactName is the name of the artifacts: artifact_name of their definition. Its spelling is that of the first
	// Vidra operator.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ArtifactName string `json:"artefactName"`
}

// InfrahubSyncDestination is the destination of the VidraResources of an InfrahubSync.
//
// +kubebuilder:validation:XValidation:rule=`has(self.server) == has(oldSelf.server) || (has(self.server) ? self.server : oldSelf.server) in ["", "https://kubernetes.default.svc"]`,message="server cannot change, because the objects would stay behind in the old cluster: create another InfrahubSync and delete this one"
type InfrahubSyncDestination struct {
	// Server is the URL of the API server. Empty and https://kubernetes.default.svc both mean the cluster that Vidra runs
	// in. It cannot change.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="server must not contain white space"
	// +kubebuilder:validation:XValidation:rule=`self == oldSelf || self in ["", "https://kubernetes.default.svc"] && oldSelf in ["", "https://kubernetes.default.svc"]`,message="server cannot change, because the objects would stay behind in the old cluster: create another InfrahubSync and delete this one"
	Server string `json:"server,omitempty"`

	// Namespace is the namespace of the objects that name none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace must be a DNS label"
	Namespace string `json:"namespace,omitempty"`

	// ReconcileOnEvents is that field of the VidraResources: Vidra watches the objects and reverts changes at once. When
	// false, changes are found at the next interval.
	// +optional
	// +kubebuilder:default:=false
	ReconcileOnEvents bool `json:"reconcileOnEvents,omitempty"`
}

// VidraResourceTemplate has fields of the VidraResources of an InfrahubSync. They have the meaning of the same fields in a VidraResource.
type VidraResourceTemplate struct {
	// NameSuffix ends the name of each VidraResource, which begins with the id of its artifact. Two InfrahubSyncs that read
	// the same artifacts need different ones.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[-a-z0-9]*[a-z0-9]$')",message="nameSuffix must have lower case letters, digits and dashes, and end with a letter or digit"
	NameSuffix string `json:"nameSuffix,omitempty"`
	// Labels of the VidraResources.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the VidraResources.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
	// Wait makes Ready depend on the health of the objects.
	// +optional
	Wait *bool `json:"wait,omitempty"`
	// Force lets Vidra delete an object and create it again when an immutable field differs.
	// +optional
	Force *bool `json:"force,omitempty"`
	// Interval between two comparisons of all objects with the manifest.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="interval must be at least 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Adopt is the response to objects that exist already.
	// +optional
	Adopt AdoptPolicy `json:"adopt,omitempty"`
	// Prune deletes the objects that left the manifest of an artifact.
	// +optional
	Prune *bool `json:"prune,omitempty"`
	// DeletionPolicy is the fate of the objects after the deletion of the VidraResource.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// UnmanagedContents is the rule for the removal of a Namespace or CustomResourceDefinition with unmanaged objects.
	// +optional
	UnmanagedContents UnmanagedContents `json:"unmanagedContents,omitempty"`
	// Drift is the response to a change of an object by a user or a program.
	// +optional
	Drift *DriftPolicy `json:"drift,omitempty"`
}

// SyncState is the one-word summary that the first Vidra operator defined.
// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Stale
type SyncState string

const (
	// SyncPending means that no query has been sent yet: spec.suspend has been true since the creation.
	SyncPending SyncState = "Pending"
	// SyncRunning means that the first query is in progress.
	SyncRunning SyncState = "Running"
	// SyncSucceeded means that the VidraResources are as the Infrahub server lists them.
	SyncSucceeded SyncState = "Succeeded"
	// SyncFailed means that lastError needs action.
	SyncFailed SyncState = "Failed"
	// SyncStale means that removals wait for a confirmation, or that spec.suspend became true.
	SyncStale SyncState = "Stale"
)

// Reasons of the condition Ready of an InfrahubSync. An Event about the same problem has the same reason.
const (
	// SyncReasonSynced means that the VidraResources are as the Infrahub server lists them.
	SyncReasonSynced = "Synced"
	// SyncReasonProgressing means that the first query is in progress.
	SyncReasonProgressing = "Progressing"
	// SyncReasonSuspended means that spec.suspend is true.
	SyncReasonSuspended = "Suspended"
	// SyncReasonSpecInvalid means that a field of the spec cannot be used.
	SyncReasonSpecInvalid = "SpecInvalid"
	// SyncReasonCredentialsMissing means that no Secret has credentials for the host, or that it cannot be read or used.
	SyncReasonCredentialsMissing = "CredentialsMissing"
	// SyncReasonUnauthorized means that the Infrahub server refused the credentials: it answered 401.
	SyncReasonUnauthorized = "Unauthorized"
	// SyncReasonForbidden means that the Infrahub server refused the query or an artifact: it answered 403.
	SyncReasonForbidden = "Forbidden"
	// SyncReasonNotFound means that the Infrahub server does not know the query, the branch or the path: it answered 404.
	SyncReasonNotFound = "NotFound"
	// SyncReasonRateLimited means that the Infrahub server answered 429.
	SyncReasonRateLimited = "RateLimited"
	// SyncReasonServerError means that the Infrahub server answered 5xx.
	SyncReasonServerError = "ServerError"
	// SyncReasonUnreachable means that the Infrahub server cannot be reached, or did not answer in time.
	SyncReasonUnreachable = "Unreachable"
	// SyncReasonRedirected means that the server answered with a redirect, which is not followed.
	SyncReasonRedirected = "Redirected"
	// SyncReasonQueryFailed means that the Infrahub server answered the query with errors.
	SyncReasonQueryFailed = "QueryFailed"
	// SyncReasonInvalidAnswer means that the answer is incomplete, too large or no answer of an Infrahub server.
	SyncReasonInvalidAnswer = "InvalidAnswer"
	// SyncReasonArtifactsFailed means that some artifacts are not applied. status.problems has each of them.
	SyncReasonArtifactsFailed = "ArtifactsFailed"
	// SyncReasonConfirmationRequired means that removals wait for a confirmation: status.pendingRemovals has them.
	SyncReasonConfirmationRequired = "ConfirmationRequired"
	// SyncReasonWriteFailed means that the API server refused to list or delete VidraResources.
	SyncReasonWriteFailed = "WriteFailed"
)

// Reasons in status.problems of an InfrahubSync: the obstacles to the apply of an artifact.
const (
	// ArtifactNotReady means that the status of the artifact is not Ready.
	ArtifactNotReady = "ArtifactNotReady"
	// ArtifactUnsupported means that the content type of the artifact is neither YAML nor JSON.
	ArtifactUnsupported = "ArtifactUnsupported"
	// ArtifactInvalid means that the content of the artifact is no manifest, is too large, or lacks the checksum.
	ArtifactInvalid = "ArtifactInvalid"
	// ArtifactUnavailable means that the content of the artifact cannot be read.
	ArtifactUnavailable = "ArtifactUnavailable"
	// ArtifactConflict means that the VidraResource of the artifact belongs to another controller.
	ArtifactConflict = "ArtifactConflict"
	// ArtifactRefused means that the API server refused the VidraResource or its Secret.
	ArtifactRefused = "ArtifactRefused"
)

// MaxSyncProblems is how many problems the status of an InfrahubSync lists, and MaxSyncChecksums how many checksums.
const (
	MaxSyncProblems  = 20
	MaxSyncChecksums = 1000
)

// ArtifactProblem is the obstacle to the apply of an artifact. Its VidraResource stays as it is.
type ArtifactProblem struct {
	// ID of the artifact.
	// +kubebuilder:validation:MaxLength=253
	ID string `json:"id"`
	// Reason is the reason in one word.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// Message describes the problem and its fix.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// PendingRemovals are VidraResources whose deletion waits for a confirmation.
type PendingRemovals struct {
	// Confirmation is the value of the annotation infrahubsync.infrahub.operators.com/confirm-removal that confirms exactly
	// these removals. It counts while removals wait.
	// +kubebuilder:validation:MaxLength=64
	Confirmation string `json:"confirmation"`
	// Count is how many VidraResources would be deleted.
	Count int32 `json:"count"`
	// Names of the VidraResources, at most ten.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Names []string `json:"names,omitempty"`
}

// InfrahubSyncStatus is the result of the last queries of an Infrahub server.
type InfrahubSyncStatus struct {
	// Checksums of the artifacts that are applied, in order. Artifacts with Secrets have none here, as it would help to guess
	// their values. At most 1000 are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Checksums []string `json:"checksums,omitempty"`
	// SyncState summarizes the last query in one word.
	// +optional
	SyncState SyncState `json:"syncState,omitempty"`
	// LastError is the message of the condition Ready; empty while it is True.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	LastError string `json:"lastError,omitempty"`
	// LastSyncTime is the time of the last complete answer of the Infrahub server. Without other changes of the status, it is
	// written every five minutes at most.
	// +optional
	LastSyncTime metav1.Time `json:"lastSyncTime,omitempty,omitzero"`

	// Artifacts is how many artifacts the last complete answer had.
	// +optional
	Artifacts int32 `json:"artifacts,omitempty"`
	// Applied is how many of them are in their VidraResources.
	// +optional
	Applied int32 `json:"applied,omitempty"`
	// PublishedRevision is the revision of the ExternalArtifact of spec.publish: the branch and the digest of the archive.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	PublishedRevision string `json:"publishedRevision,omitempty"`
	// Problems are the artifacts that are not applied. At most 20 are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Problems []ArtifactProblem `json:"problems,omitempty"`
	// UnlistedProblems is how many further problems there are.
	// +optional
	UnlistedProblems int32 `json:"unlistedProblems,omitempty"`
	// PendingRemovals are VidraResources whose deletion waits for a confirmation.
	// +optional
	PendingRemovals *PendingRemovals `json:"pendingRemovals,omitempty"`
	// LastHandledSyncAt is the last value of the annotation infrahubsync.infrahub.operators.com/sync-requested-at that was
	// carried out.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledSyncAt string `json:"lastHandledSyncAt,omitempty"`
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready and, while they are true, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InfrahubSync makes a VidraResource of each artifact of an Infrahub server with a name. Vidra queries the server at each
// interval, writes the VidraResources, and deletes those whose artifacts are gone.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Artifact",type=string,JSONPath=`.spec.source.artefactName`
// +kubebuilder:printcolumn:name="Branch",type=string,JSONPath=`.spec.source.targetBranch`
// +kubebuilder:printcolumn:name="Artifacts",type=integer,JSONPath=`.status.artifacts`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Last sync",type=date,JSONPath=`.status.lastSyncTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.spec.source.infrahubAPIURL`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type InfrahubSync struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec InfrahubSyncSpec `json:"spec"`
	// +optional
	Status InfrahubSyncStatus `json:"status,omitempty"`
}

// InfrahubSyncList is a list of InfrahubSyncs.
//
// +kubebuilder:object:root=true
type InfrahubSyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []InfrahubSync `json:"items"`
}

// QueryInterval is the time between two queries: spec.interval, else the default of the operator, else DefaultSyncInterval.
func (s *InfrahubSync) QueryInterval(operatorDefault time.Duration) time.Duration {
	if s.Spec.Interval != nil && s.Spec.Interval.Duration > 0 {
		return max(s.Spec.Interval.Duration, MinSyncInterval)
	}
	return max(cmp.Or(operatorDefault, DefaultSyncInterval), MinSyncInterval)
}

// ArtifactName is the name of the ExternalArtifact of spec.publish.
func (s *InfrahubSync) ArtifactName() string { return cmp.Or(s.Spec.Publish.Name, s.Name) }

// SyncRequest is the request for a query: the value of SyncRequestedAtAnnotation, shortened to the length that the status
// repeats.
func (s *InfrahubSync) SyncRequest() string {
	return repeated(s.Annotations[SyncRequestedAtAnnotation])
}
