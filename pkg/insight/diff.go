package insight

import (
	"context"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
)

// Preview names the VidraResources that [Client.Diff] and [Client.Forecast] are about, as they would be after an apply.
type Preview struct {
	// Wanted are those that are compared.
	Wanted []*v1alpha1.VidraResource
	// Given are those that are applied with them, between which objects move, and Wanted.
	Given []*v1alpha1.VidraResource
	// Dropped are the fields that the files have dropped, by VidraResource.
	Dropped map[string][]string
	// Parts are the manifest of the VidraResource that is compared, instead of its own; nil for its own.
	Parts []desired.Part
	// Beside finds parts of a manifest in files; nil for none.
	Beside func(vr *v1alpha1.VidraResource, source v1alpha1.ManifestSource) (text string, found bool)
	// IsNew reports that the VidraResource stands for a new one.
	IsNew bool
}

// Diff is what applies of VidraResources would do.
type Diff struct {
	VidraResources []*Difference `json:"vidraResources"`

	// Remarks are what the user is to know in addition.
	Remarks []string `json:"-"`
}

// Forecasts are what others write of the fields of VidraResources.
type Forecasts struct {
	VidraResources []*Forecast `json:"vidraResources"`
}

// Diff finds out what an apply of VidraResources would do, by dry runs with the rights of the user.
func (c *Client) Diff(ctx context.Context, p Preview) (*Diff, error) {
	answer := &Diff{}
	return answer, c.each(ctx, p, func(d *differ) error {
		d.remark = func(text string) { answer.Remarks = append(answer.Remarks, text) }
		diff, err := d.run(ctx)
		answer.VidraResources = append(answer.VidraResources, diff)
		return err
	})
}

// Forecast finds out which fields of VidraResources others write, by dry runs with the rights of the user.
func (c *Client) Forecast(ctx context.Context, p Preview) (*Forecasts, error) {
	answer := &Forecasts{}
	return answer, c.each(ctx, p, func(d *differ) error {
		found, err := (&forecaster{differ: d}).run(ctx)
		answer.VidraResources = append(answer.VidraResources, found)
		return err
	})
}

// each calls compare for each VidraResource that is compared.
func (c *Client) each(ctx context.Context, p Preview, compare func(*differ) error) error {
	moves := newMoves(c, p.Given)
	for _, vr := range p.Wanted {
		at, err := c.destinations.Of(ctx, c.cluster, c.config, vr)
		if err != nil {
			return err
		}
		d := newDiffer(c, at, vr)
		d.moves, d.Given, d.Beside = moves, p.Parts, p.Beside
		d.dropped, d.isNew = p.Dropped[vr.Name], p.IsNew
		if err := compare(d); err != nil {
			return err
		}
	}
	return nil
}
