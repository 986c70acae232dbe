package insight

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// Revisions are the revisions of the manifest of a VidraResource.
type Revisions struct {
	VidraResource string `json:"vidraResource"`
	// Applied is the number of the revision that was last applied in full; 0 if none is known.
	Applied int64 `json:"applied,omitempty"`
	// Held reports that new revisions wait. To is the number of the earlier revision that is to be applied; 0 if none is.
	Held bool  `json:"held,omitempty"`
	To   int64 `json:"to,omitempty"`
	// HeldBy is the field manager that has set spec.revision, and HeldSince the time of its last write; empty where they are unknown.
	HeldBy    string       `json:"heldBy,omitempty"`
	HeldSince *metav1.Time `json:"heldSince,omitempty"`
	// Waiting is the revision that waits; nil if none does, or if it is unknown because of To.
	Waiting *v1alpha1.WaitingRevision `json:"waiting,omitempty"`
	// Kept are the applied revisions that are kept, the newest first.
	Kept []v1alpha1.AppliedRevision `json:"kept"`
	// Problem is the message of the condition Ready if a revision waits or cannot be applied.
	Problem string `json:"problem,omitempty"`
}

// Revisions returns the revisions in the status of a VidraResource.
func (c *Client) Revisions(ctx context.Context, name string) (*Revisions, error) {
	vr, err := c.VidraResource(ctx, name)
	if err != nil {
		return nil, err
	}
	return RevisionsOf(vr), nil
}

// RevisionsOf returns the revisions in the status of a VidraResource.
func RevisionsOf(vr *v1alpha1.VidraResource) *Revisions {
	all := &Revisions{VidraResource: vr.Name, Held: vr.Holds(), To: vr.RevisionTo(), Kept: []v1alpha1.AppliedRevision{}}
	if is := vr.Status.Revision; is != nil {
		all.Applied, all.Waiting = is.Applied, is.Waiting
		all.Kept = append(all.Kept, is.Kept...)
	}
	if ready := meta.FindStatusCondition(vr.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Reason == v1alpha1.ReasonRevisionHeld {
		all.Problem = ready.Message
	}
	if all.Held {
		all.HeldBy, all.HeldSince = managerOfHold(vr.ManagedFields)
	}
	return all
}

// managerOfHold returns the last field manager that has set spec.revision.hold.
func managerOfHold(managers []metav1.ManagedFieldsEntry) (manager string, since *metav1.Time) {
	for _, m := range managers {
		var fields struct {
			Spec struct {
				Revision map[string]any `json:"f:revision"`
			} `json:"f:spec"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, holds := fields.Spec.Revision["f:hold"]; holds && (since == nil || m.Time != nil && since.Before(m.Time)) {
			manager, since = m.Manager, m.Time
		}
	}
	return manager, since
}
