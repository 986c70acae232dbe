// Package policy decides whether Vidra may write to an object: whether it reverts an edit, and whether it removes an object. It
// sends no request: the facts about an edit are arguments, and [Decide] asks its Facts, in the order of its questions.
//
// Each rule returns one value: [Revert], or [Leave] with a reason and a time, for an edit; [Remove], [Keep] or [Wait] for a removal.
// [FirstOf] combines rules about edits, and [Decide] rules about removals. The reconciler and `vidra diff` call the same functions. `vidra
// why` calls them for an exemption. `vidra forecast` calls them for the end of a break-glass, and reads spec.drift.mode itself for the fields that fight.
//
// Invariants: an unknown fact makes a removal wait; no rule turns Keep or Wait of another one into Remove.
package policy
