package events

// Reasons of Events. Where one speaks of a problem, the condition that speaks
// of it has the same reason.
const (
	ReasonApplied         = "Applied"
	ReasonDriftCorrected  = "DriftCorrected"
	ReasonChangeReverted  = "ChangeReverted"
	ReasonDriftDetected   = "DriftDetected"
	ReasonDriftContended  = "DriftContended"
	ReasonDriftSettled    = "DriftSettled"
	ReasonSuspended       = "Suspended"
	ReasonResumed         = "Resumed"
	ReasonPruned          = "Pruned"
	ReasonPruneFailed     = "PruneFailed"
	ReasonManifestInvalid = "ManifestInvalid"
	ReasonKindUnavailable = "KindUnavailable"
	ReasonApplyFailed     = "ApplyFailed"
	ReasonAdoptionRefused = "AdoptionRefused"
	ReasonRecovered       = "Recovered"
	ReasonReplaced        = "Replaced"
)

// Actions of Events: what Vidra was doing.
const (
	ActionApply   = "Apply"
	ActionRestore = "Restore"
	ActionPrune   = "Prune"
	ActionDetect  = "Detect"
	ActionSuspend = "Suspend"
)
