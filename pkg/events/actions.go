package events

import "github.com/vidra-operator/vidra/pkg/api/v1alpha1"

// topic is the group of Events that an Action belongs to.
type topic int

const (
	// ofSummary is the topic of actions that Events about several objects, or about break-glass, report.
	ofSummary topic = iota
	ofRevert
	ofDrift
	ofOwner
)

// meaning is the meaning of an Action for Events, the status and the history.
type meaning struct {
	topic topic
	// rediscovered reports that the next reconcile finds the change again if no status has it.
	rediscovered bool
	// eventType, reason and action are the values of the Event about the VidraResource, for the topics ofDrift and ofOwner.
	eventType, reason, action string
}

// meanings has each Action.
var meanings = map[Action]meaning{
	Created:    {rediscovered: true},
	Configured: {rediscovered: true},
	Answered:   {rediscovered: true},
	Pruned:     {},
	Released:   {},
	Orphaned:   {},
	Restored:   {topic: ofRevert},
	Recreated:  {topic: ofRevert},
	Relabelled: {topic: ofRevert},
	Detected:   {ofDrift, true, warning, v1alpha1.ReasonDriftDetected, ActionDetect},
	Contended:  {ofDrift, true, warning, v1alpha1.ReasonDriftContended, ActionRestore},
	Settled:    {ofDrift, true, normal, ReasonDriftSettled, ActionRestore},
	Replaced:   {ofDrift, false, normal, ReasonReplaced, ActionApply},
	Retyped:    {ofOwner, true, normal, ReasonKindChanged, ActionApply},
	Deleted:    {ofOwner, true, normal, ReasonDeletionStarted, ActionPrune},
	Rotated:    {ofOwner, true, normal, ReasonKubeconfigChanged, ActionConnect},
	Progressed: {ofOwner, true, normal, v1alpha1.ReasonProgressing, ActionApply},
}

// Reverts reports whether a change of another writer was reverted.
func (a Action) Reverts() bool { return meanings[a].topic == ofRevert }

// Rediscovered reports whether the next reconcile finds the change again if no status has it.
func (a Action) Rediscovered() bool { return meanings[a].rediscovered }

// event returns the Event of a change of the topics ofDrift and ofOwner, as its Action defines it.
func (m meaning) event() Event {
	return Event{Type: m.eventType, Reason: m.reason, Action: m.action}
}
