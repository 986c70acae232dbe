package writes

import "context"

// Suspend sets spec.suspend of a VidraResource. It reports whether that changed it.
func (c *Client) Suspend(ctx context.Context, name string, suspend bool) (changed bool, err error) {
	vr, err := c.questions.VidraResource(ctx, name)
	if err != nil || vr.Spec.Suspend == suspend {
		return false, err
	}
	_, err = c.spec(ctx, name, "suspend", suspend)
	return err == nil, err
}
