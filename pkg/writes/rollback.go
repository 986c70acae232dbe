package writes

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// Rollback is the result of [Client.Rollback] and [Client.Release].
type Rollback struct {
	VidraResource string `json:"vidraResource"`
	// From is the number of the applied revision before; 0 if it is unknown.
	From int64 `json:"from,omitempty"`
	// To is the number of the revision that is applied and held; 0 after a release.
	To int64 `json:"to,omitempty"`
	// Released reports that the manifest of the spec is applied again.
	Released bool `json:"released,omitempty"`
	// Unchanged reports that the VidraResource was so before.
	Unchanged bool `json:"unchanged,omitempty"`
}

// Rollback has an earlier revision of the manifest applied, and holds it. to is its number; 0 is the revision before, which
// is the applied one while a newer manifest is applied in part.
func (c *Client) Rollback(ctx context.Context, name string, to int64) (*Rollback, error) {
	vr, err := c.questions.VidraResource(ctx, name)
	if err != nil {
		return nil, err
	}
	all := insight.RevisionsOf(vr)
	if to == 0 {
		if to = before(vr, all); to == 0 {
			return nil, fmt.Errorf("VidraResource %s has no earlier revision than the applied one%s", name, keptText(all))
		}
	}
	if !slices.ContainsFunc(all.Kept, func(k v1alpha1.AppliedRevision) bool { return k.Number == to }) {
		return nil, fmt.Errorf("revision %d of VidraResource %s is not kept%s", to, name, keptText(all))
	}
	done := &Rollback{VidraResource: name, From: all.Applied, To: to, Unchanged: all.Held && all.To == to}
	if !done.Unchanged {
		_, err = c.spec(ctx, name, "revision", map[string]any{"hold": true, "to": to})
	}
	return done, err
}

// before returns the number of the newest kept revision before the one that Vidra applies; 0 if there is none. While a newer manifest is only
// applied in part, that is the applied one: the last of which all was applied.
func before(vr *v1alpha1.VidraResource, all *insight.Revisions) int64 {
	if !all.Held && !vr.IsReady() && all.Applied != 0 {
		return all.Applied
	}
	for _, k := range all.Kept {
		if k.Number < all.Applied {
			return k.Number
		}
	}
	return 0
}

// keptText lists the kept revisions for an error.
func keptText(all *insight.Revisions) string {
	if len(all.Kept) == 0 {
		return ": none is kept. Vidra keeps those that are applied while spec.revisionHistoryLimit is above 0"
	}
	numbers := make([]string, 0, len(all.Kept))
	for _, k := range all.Kept {
		numbers = append(numbers, strconv.FormatInt(k.Number, 10))
	}
	return fmt.Sprintf(": kept are %s, and applied is %d. Choose one with --to", strings.Join(numbers, ", "), all.Applied)
}

// Release ends a hold: the manifest of the spec is applied.
func (c *Client) Release(ctx context.Context, name string) (*Rollback, error) {
	vr, err := c.questions.VidraResource(ctx, name)
	if err != nil {
		return nil, err
	}
	all := insight.RevisionsOf(vr)
	done := &Rollback{VidraResource: name, From: all.Applied, Released: true, Unchanged: !all.Held}
	if !done.Unchanged {
		_, err = c.spec(ctx, name, "revision", map[string]any{"hold": false, "to": nil})
	}
	return done, err
}
