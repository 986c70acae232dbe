package insight

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// HistoryQuery selects the edits of [Client.History]. The zero value selects all.
type HistoryQuery struct {
	// VidraResource is the name of the only one.
	VidraResource string
	// Target is the only object. It excludes VidraResource.
	Target *Target
	// Namespace of the objects; empty for all.
	Namespace string
	// Since is the earliest time of the last occurrence.
	Since time.Time
}

// History has the edits of managed objects that statuses hold, the newest first.
type History struct {
	Edits []HistoryEdit `json:"edits"`
	// Source are the revisions of the sources of Flux that the manifests were last read from.
	Source []v1alpha1.SourceStatus `json:"source,omitempty"`
	// Remarks name the hidden parts, with the reasons.
	Remarks []string `json:"-"`
	// Kinds are the kinds of the objects in the inventories, for the names of objects.
	Kinds display.Kinds `json:"-"`
}

// HistoryEdit is an entry of the history of a VidraResource.
type HistoryEdit struct {
	VidraResource string `json:"vidraResource"`

	v1alpha1.HistoryEntry `json:",inline"`
}

// History returns the edits in the statuses of VidraResources. It fails for an object that no VidraResource manages.
func (c *Client) History(ctx context.Context, q HistoryQuery) (*History, error) {
	owners, err := c.wanted(ctx, StatusQuery{Name: q.VidraResource})
	if err != nil {
		return nil, err
	}
	wanted := func(o v1alpha1.ProblemObject) bool { return q.Namespace == "" || o.Namespace == q.Namespace }
	var of *subject
	if q.Target != nil {
		if of, err = c.find(*q.Target); err != nil {
			return nil, err
		}
		wanted = of.is
	}
	history, known := &History{Edits: []HistoryEdit{}}, false
	for _, vr := range owners {
		history.Source = append(history.Source, vr.Status.Source...)
		for i := range vr.Status.ManagedResources {
			history.Kinds.Add(object.GVKOf(&vr.Status.ManagedResources[i]).GroupKind())
		}
		for _, e := range vr.Status.History {
			known = known || wanted(e.Object)
			if wanted(e.Object) && !e.LastTime.Time.Before(q.Since) {
				history.Edits = append(history.Edits, HistoryEdit{vr.Name, e})
			}
		}
		if n := vr.Status.UnlistedHistory; n > 0 {
			history.Remarks = append(history.Remarks, fmt.Sprintf("VidraResource %s: %s dropped, which were older", vr.Name, display.Plural(int(n), "edit")))
		}
	}
	if of != nil && !known {
		if err := of.read(ctx); err != nil { // it does not exist or is not managed
			return nil, err
		}
	}
	slices.SortStableFunc(history.Edits, func(a, b HistoryEdit) int { return b.LastTime.Compare(a.LastTime.Time) })
	return history, nil
}
