package v1alpha1

// Types of the conditions of a VidraResource. Ready, Reconciling and Stalled
// follow kstatus (sigs.k8s.io/cli-utils/pkg/kstatus): the latter two are in
// the status only while they are true.
const (
	// ConditionReady is true while every object is applied as the manifest says
	// and watched.
	ConditionReady = "Ready"
	// ConditionReconciling is true while a reconcile is in progress or will be retried.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when only a change of the VidraResource helps.
	ConditionStalled = "Stalled"
	// ConditionWatching is true while every kind in the manifest is watched.
	ConditionWatching = "Watching"
	// ConditionDrifted is true while an object is known to differ from the
	// manifest and is not reverted yet.
	ConditionDrifted = "Drifted"
	// ConditionSuspended is in the status while spec.suspend is true.
	ConditionSuspended = "Suspended"
	// ConditionUnmatchedIgnoreRules is in the status while a rule of
	// spec.drift.ignore matches nothing in the manifest.
	ConditionUnmatchedIgnoreRules = "UnmatchedIgnoreRules"
	// ConditionHealthy is true while the objects are healthy, as kstatus or spec.healthChecks compute it.
	ConditionHealthy = "Healthy"
	// ConditionWarnings is in the status while the API server warns about an object of the
	// manifest, for example about a deprecated version, or stored it with other values than
	// were applied, and while the VidraResource is near its size limit.
	ConditionWarnings = "Warnings"
)

// Reasons of conditions. An Event about the same problem has the same reason.
const (
	// ReasonApplied means that every object is applied.
	ReasonApplied = "Applied"
	// ReasonProgressing means that a reconcile is in progress.
	ReasonProgressing = "Progressing"
	// ReasonManifestInvalid means that the manifest or the ignore rules cannot be
	// read, or the API server calls one of the objects invalid.
	ReasonManifestInvalid = "ManifestInvalid"
	// ReasonKindUnavailable means that the kind of an object is unserved.
	ReasonKindUnavailable = "KindUnavailable"
	// ReasonApplyFailed means that an object was not accepted, for another cause.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonAdoptionRefused means that an object exists that Vidra does not manage, and
	// spec.adopt forbids to take it.
	ReasonAdoptionRefused = "AdoptionRefused"
	// ReasonPruneFailed means that an object that left the manifest cannot be removed.
	ReasonPruneFailed = "PruneFailed"
	// ReasonManifestEmpty means that the manifest holds no object. What was applied
	// before stays.
	ReasonManifestEmpty = "ManifestEmpty"
	// ReasonSourceUnavailable means that a part of the manifest is unreadable.
	ReasonSourceUnavailable = "SourceUnavailable"
	// ReasonServiceAccountRequired means that the operator's flags require
	// spec.serviceAccountName, and it is missing or names a forbidden account.
	ReasonServiceAccountRequired = "ServiceAccountRequired"
	// ReasonOwnershipConflict means that another VidraResource wants another value for
	// the same field.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonDestinationUnreachable means that the API server of the destination cannot
	// be reached, or there are no credentials for it.
	ReasonDestinationUnreachable = "DestinationUnreachable"
	// ReasonOutOfScope means that Vidra sends no request about an object, because it may do nothing
	// in its namespace, by --namespaces or by an annotation of a kubeconfig.
	ReasonOutOfScope = "OutOfScope"
	// ReasonDependencyNotReady means that the VidraResource waits for one of spec.dependsOn.
	ReasonDependencyNotReady = "DependencyNotReady"
	// ReasonRevisionHeld means that a new revision of the manifest waits, because spec.revision.hold is true.
	ReasonRevisionHeld = "RevisionHeld"
	// ReasonDeleting means that the VidraResource is being deleted and waits for the
	// removal of its objects.
	ReasonDeleting = "Deleting"

	// ReasonSynced means that every watch is synced.
	ReasonSynced = "Synced"
	// ReasonStarting means that a watch has not listed all objects yet.
	ReasonStarting = "Starting"
	// ReasonWatchFailed means that a kind cannot be watched.
	ReasonWatchFailed = "WatchFailed"
	// ReasonEventsOff means that the spec turns events off:
	// spec.destination.reconcileOnEvents is false.
	ReasonEventsOff = "EventsOff"

	// ReasonInSync means that no object is known to differ.
	ReasonInSync = "InSync"
	// ReasonDriftDetected means that an object differs and is not reverted yet.
	ReasonDriftDetected = "DriftDetected"
	// ReasonDriftContended means that another writer keeps changing an object.
	ReasonDriftContended = "DriftContended"
	// ReasonSuspended means that a write is not done because spec.suspend is true.
	ReasonSuspended = "Suspended"
	// ReasonDeletionSuspended means that the VidraResource is being deleted, and
	// spec.suspend keeps its objects from being removed.
	ReasonDeletionSuspended = "DeletionSuspended"
	// ReasonDeletionBlocked means that an object has been terminating for long because of its
	// finalizers, or the VidraResource waits for those of other controllers.
	ReasonDeletionBlocked = "DeletionBlocked"
	// ReasonNothingMatches means that an ignore rule matches nothing.
	ReasonNothingMatches = "NothingMatches"
	// ReasonHealthy means that every object is healthy.
	ReasonHealthy = "Healthy"
	// ReasonUnhealthy means that an object has failed. One that is not healthy yet is
	// Progressing.
	ReasonUnhealthy = "Unhealthy"
	// ReasonHealthCheckInvalid means that an expression of spec.healthChecks is invalid.
	ReasonHealthCheckInvalid = "HealthCheckInvalid"
	// ReasonWarned means that the API server warns about an object, or a mutating
	// webhook changed what was applied.
	ReasonWarned = "Warned"
	// ReasonNearSizeLimit means that the VidraResource takes most of the bytes that it may have.
	ReasonNearSizeLimit = "NearSizeLimit"
	// ReasonNamespaceTerminating means that the namespace of an object is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)
