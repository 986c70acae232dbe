package writes

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// FieldManager is the field manager of all writes. It counts as a tool of users, as kubectl and its other plugins do
// (ownership.DefaultTools).
const FieldManager = insight.FieldManager

// Client writes to the API server of one cluster, with the rights of one user. Its methods are safe for concurrent use.
type Client struct {
	questions *insight.Client
	program   insight.Program
	dynamic   dynamic.Interface
}

// New returns a Client for the API server of config. It sends no request.
func New(config *rest.Config, o insight.Options) (*Client, error) {
	questions, err := insight.New(config, o)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // the API server limits, not we
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return &Client{questions: questions, program: o.Program, dynamic: client}, nil
}

// Questions returns the client for questions with the same options.
func (c *Client) Questions() *insight.Client { return c.questions }

// patch sends a merge patch of a VidraResource, and returns its generation.
func (c *Client) patch(ctx context.Context, name string, patch map[string]any) (generation int64, err error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return 0, fmt.Errorf("encode the patch: %w", err)
	}
	return c.send(ctx, name, types.MergePatchType, body)
}

// send sends a patch of a VidraResource, and returns its generation.
func (c *Client) send(ctx context.Context, name string, kind types.PatchType, body []byte) (generation int64, err error) {
	u, err := c.dynamic.Resource(v1alpha1.Resource).Patch(ctx, name, kind, body, metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return 0, c.program.VidraResourceError("patch", name, object.WithoutValues(err, c.questions.DisclosureOfWrite(ctx, name, nil)))
	}
	return u.GetGeneration(), nil
}

// spec sends a merge patch of a field of the spec of a VidraResource, and returns its generation.
func (c *Client) spec(ctx context.Context, name, field string, value any) (generation int64, err error) {
	return c.patch(ctx, name, map[string]any{"spec": map[string]any{field: value}})
}

// annotate sets annotations of an object, and removes those that are nil.
func (c *Client) annotate(ctx context.Context, of insight.Managed, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode the patch: %w", err)
	}
	objects := c.dynamic.Resource(of.Resource).Namespace(of.ID.Namespace)
	_, err = objects.Patch(ctx, of.ID.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: FieldManager})
	if ownership.LacksRight(err) {
		return fmt.Errorf("you may not patch %s: ask for that right, or for an edit of the VidraResource: %w", of.ID, err)
	} else if err != nil { // a policy or webhook may quote values
		return fmt.Errorf("annotate %s: %w", of.ID, object.WithoutValues(err, c.questions.Disclosure(ctx, insight.TargetOf(of.ID))))
	}
	return nil
}
