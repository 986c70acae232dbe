package v1alpha1

// Types of the conditions of a VidraResource. Ready, Reconciling and Stalled
// follow kstatus (sigs.k8s.io/cli-utils/pkg/kstatus): the latter two stand in
// the status only while they are true.
const (
	// ConditionReady is true while every object is applied as the manifest says
	// and watched.
	ConditionReady = "Ready"
	// ConditionReconciling is true while a pass is under way or will be retried.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true when only a change of the VidraResource helps.
	ConditionStalled = "Stalled"
	// ConditionWatching is true while every kind in the manifest is watched.
	ConditionWatching = "Watching"
	// ConditionDrifted is true while an object is known to differ from the
	// manifest and is not put back yet.
	ConditionDrifted = "Drifted"
	// ConditionSuspended stands in the status while spec.suspend is true.
	ConditionSuspended = "Suspended"
	// ConditionUnmatchedIgnoreRules stands in the status while a rule of
	// spec.drift.ignore matches nothing in the manifest.
	ConditionUnmatchedIgnoreRules = "UnmatchedIgnoreRules"
	// ConditionHealthy says whether the objects are healthy, as kstatus reads them.
	ConditionHealthy = "Healthy"
	// ConditionWarnings stands in the status while the API server warns of an object of
	// the manifest, of a version that is going to be removed, for example, or holds it
	// otherwise than it was applied.
	ConditionWarnings = "Warnings"
)

// Reasons of conditions. Where an Event speaks of the same problem, it has the
// same reason.
const (
	// ReasonApplied says that every object is applied.
	ReasonApplied = "Applied"
	// ReasonProgressing says that a pass is under way.
	ReasonProgressing = "Progressing"
	// ReasonManifestInvalid says that the manifest or the ignore rules cannot be
	// read, or that the API server calls one of the objects invalid.
	ReasonManifestInvalid = "ManifestInvalid"
	// ReasonKindUnavailable says that the kind of an object is not served.
	ReasonKindUnavailable = "KindUnavailable"
	// ReasonApplyFailed says that an object was not accepted, for another cause.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonAdoptionRefused says that an object exists that is not Vidra's, and that
	// spec.adopt says not to take it.
	ReasonAdoptionRefused = "AdoptionRefused"
	// ReasonPruneFailed says that an object that left the manifest is still there.
	ReasonPruneFailed = "PruneFailed"
	// ReasonManifestEmpty says that the manifest holds no object. What was applied
	// before stays.
	ReasonManifestEmpty = "ManifestEmpty"
	// ReasonSourceUnavailable says that a part of the manifest cannot be read.
	ReasonSourceUnavailable = "SourceUnavailable"
	// ReasonServiceAccountRequired says that spec.serviceAccountName is missing, and
	// that Vidra was started so that it must not be.
	ReasonServiceAccountRequired = "ServiceAccountRequired"
	// ReasonOwnershipConflict says that another VidraResource wants another value for
	// the same field.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonDestinationUnreachable says that the API server of the destination cannot
	// be reached, or that there are no credentials for it.
	ReasonDestinationUnreachable = "DestinationUnreachable"
	// ReasonDeleting says that the VidraResource is going and waits for its objects.
	ReasonDeleting = "Deleting"

	// ReasonSynced says that every watch is synced.
	ReasonSynced = "Synced"
	// ReasonStarting says that a watch has not seen every object yet.
	ReasonStarting = "Starting"
	// ReasonWatchFailed says that a kind cannot be watched.
	ReasonWatchFailed = "WatchFailed"
	// ReasonEventsOff says that spec.destination.reconcileOnEvents is false.
	ReasonEventsOff = "EventsOff"

	// ReasonInSync says that no object is known to differ.
	ReasonInSync = "InSync"
	// ReasonDriftDetected says that an object differs and is not put back yet.
	ReasonDriftDetected = "DriftDetected"
	// ReasonDriftContended says that another writer keeps changing an object.
	ReasonDriftContended = "DriftContended"
	// ReasonSuspended says that spec.suspend keeps something from being done.
	ReasonSuspended = "Suspended"
	// ReasonDeletionSuspended says that the VidraResource is being deleted, and that
	// spec.suspend keeps its objects from being removed.
	ReasonDeletionSuspended = "DeletionSuspended"
	// ReasonNothingMatches says that an ignore rule matches nothing.
	ReasonNothingMatches = "NothingMatches"
	// ReasonHealthy says that every object is healthy.
	ReasonHealthy = "Healthy"
	// ReasonUnhealthy says that an object has failed. One that is not healthy yet is
	// Progressing.
	ReasonUnhealthy = "Unhealthy"
	// ReasonWarned says that the API server warns of an object, or holds it otherwise
	// than it was applied, as a mutating webhook has it.
	ReasonWarned = "Warned"
	// ReasonNamespaceTerminating says that the namespace of an object is going.
	ReasonNamespaceTerminating = "NamespaceTerminating"
)
