package insight

import (
	"context"
	"fmt"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
)

// Diff is the answer to the question about the effects of applies of VidraResources.
type Diff struct {
	VidraResources []*Difference `json:"vidraResources"`

	// Remarks are messages to the user, such as the lack of a right.
	Remarks []string `json:"-"`
}

// Forecasts are the fields of VidraResources that other field managers write.
type Forecasts struct {
	VidraResources []*Forecast `json:"vidraResources"`

	// Remarks are messages to the user, such as the lack of a right.
	Remarks []string `json:"-"`
}

// Diff returns the effects of an apply of VidraResources, by dry runs with the rights of the user and the decisions of the
// operator.
func (c *Client) Diff(ctx context.Context, q PreviewQuery) (*Diff, error) {
	differs, remarks, err := c.differs(ctx, q)
	if err != nil {
		return nil, err
	}
	answer := &Diff{Remarks: remarks}
	for _, d := range differs {
		d.remark = func(text string) { answer.Remarks = append(answer.Remarks, text) }
		diff, err := d.run(ctx)
		if err != nil {
			return nil, err
		}
		answer.VidraResources = append(answer.VidraResources, diff)
	}
	return answer, nil
}

// Forecast returns the fields of VidraResources that other field managers write, by dry runs with the rights of the user and the
// decisions of the operator.
func (c *Client) Forecast(ctx context.Context, q PreviewQuery) (*Forecasts, error) {
	differs, remarks, err := c.differs(ctx, q)
	if err != nil {
		return nil, err
	}
	answer := &Forecasts{Remarks: remarks}
	for _, d := range differs {
		found, err := (&forecaster{differ: d}).run(ctx)
		if err != nil {
			return nil, err
		}
		answer.VidraResources = append(answer.VidraResources, found)
	}
	return answer, nil
}

// destinationOf opens the destination of a VidraResource.
func (c *Client) destinationOf(ctx context.Context, vr *v1alpha1.VidraResource) (*cluster.Cluster, error) {
	return c.destinations.Of(ctx, c.cluster, c.config, vr)
}

// differs returns a differ for each VidraResource that a query selects, and messages to the user. It fails for a VidraResource
// about which the operator sends no request.
func (c *Client) differs(ctx context.Context, q PreviewQuery) (differs []*differ, remarks []string, err error) {
	p, err := c.preview(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	moves := newMoves(c, p.given)
	for _, vr := range p.wanted {
		if why := c.operator.accounts(reader{moves: moves}).Refused(ctx, vr); why != nil {
			return nil, nil, fmt.Errorf("VidraResource %s: %s", vr.Name, why.Message)
		}
		at, err := c.destinationOf(ctx, vr)
		if err != nil {
			return nil, nil, err
		}
		d := newDiffer(c, at, vr, moves)
		if !Remote(vr) {
			d.runner.Scope = c.operator.scope
		}
		d.runner.Given, d.runner.Beside, d.dropped, d.isNew = p.parts, p.beside, p.dropped[vr.Name], p.isNew
		differs = append(differs, d)
	}
	return differs, p.remarks, nil
}
