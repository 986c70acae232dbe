package migrate

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/export"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// readers is how many objects are read or patched at the same time.
const readers = 8

// Client moves objects in one cluster, with the rights of one user.
type Client struct {
	program   insight.Program
	writes    *writes.Client
	questions *insight.Client
	objects   *export.Objects
}

// New returns a Client for the API server of config. It sends no request.
func New(config *rest.Config, o insight.Options) (*Client, error) {
	client, err := writes.New(config, o)
	if err != nil {
		return nil, err
	}
	objects, err := export.NewObjects(config)
	if err != nil {
		return nil, err
	}
	return &Client{program: o.Program, writes: client, questions: client.Questions(), objects: objects}, nil
}

// Tool is a tool that applied objects.
type Tool interface {
	// title names the source in messages, and origin is the value of v1alpha1.MigratedFromAnnotation.
	title() string
	origin() string
	// defaultName is the name of the VidraResource unless the user gives one.
	defaultName() string
	// read adds the VidraResource and the findings to a plan. It is called while no VidraResource exists.
	read(ctx context.Context, p *Plan) error
	// stop ends all writes and deletions of the tool, and start undoes that. state reports both.
	state(ctx context.Context) (state, error)
	stop(ctx context.Context, timeout time.Duration) error
	start(ctx context.Context) error
	// steps describe stop and the end of the migration, which the user does.
	steps() (stop, end string)
	// marks are on the objects of the tool.
	marks() marks
	// restore returns the traces that an undo gives back to an object. document is the object in the manifest; it may be nil.
	restore(vr *v1alpha1.VidraResource, live, document *unstructured.Unstructured) (traces, error)
}

// state is the state of a tool.
type state struct {
	// exists reports that the tool can be started again, begun that a write of stop is there, and stopped that all of them are.
	exists, begun, stopped bool
}

// Options are the choices of the user.
type Options struct {
	// Name is the VidraResource. Defaults to the name of the source.
	Name string
	// PartsNamespace is the namespace of the parts of a manifest of documents. See [writes.Creation].
	PartsNamespace string
	// Accept are the fields of findings that the user accepts.
	Accept []string
	// Timeout is how long each wait takes at most.
	Timeout time.Duration
	// Progress is called with the objects that are done, and all; it may be nil.
	Progress func(done, all int)
}

// ours returns the VidraResource of a migration; nil if there is none. Another VidraResource of the name is an error, and so is a migration
// under another name.
func (c *Client) ours(ctx context.Context, name string, tool Tool) (*v1alpha1.VidraResource, error) {
	u, err := c.objects.Dynamic.Resource(v1alpha1.Resource).Get(ctx, name, metav1.GetOptions{})
	if object.IsAbsent(err, name) {
		all, err := c.questions.VidraResources(ctx, "")
		if err != nil {
			return nil, err
		}
		for _, vr := range all {
			if vr.Annotations[v1alpha1.MigratedFromAnnotation] == tool.origin() {
				return nil, fmt.Errorf("%s: moved to VidraResource %s already: use --name %s", tool.title(), vr.Name, vr.Name)
			}
		}
		return nil, nil //nolint:nilnil // that there is none is no error
	} else if err != nil {
		return nil, c.program.VidraResourceError("get", name, err)
	}
	vr, err := insight.AsVidraResource(u)
	if err != nil {
		return nil, err
	}
	if from := vr.Annotations[v1alpha1.MigratedFromAnnotation]; from != tool.origin() {
		return nil, fmt.Errorf("VidraResource %s exists, and is not migrated from %s: name another one with --name", name, tool.title())
	}
	return vr, nil
}

// read reads an object; nil if it is absent.
func (c *Client) read(ctx context.Context, apiVersion, kind, namespace, name string) (*unstructured.Unstructured, error) {
	at, err := c.objects.At(schema.FromAPIVersionAndKind(apiVersion, kind), namespace)
	if meta.IsNoMatchError(err) {
		return nil, nil //nolint:nilnil // that it is absent is no error
	} else if err != nil {
		return nil, err
	}
	u, err := at.Get(ctx, name, metav1.GetOptions{})
	if object.IsAbsent(err, name) {
		return nil, nil //nolint:nilnil // that it is absent is no error
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", strings.TrimSpace(display.Name(kind, namespace, name)), err)
	}
	return u, nil
}

// each does something with each object of the inventory of a VidraResource, several at a time.
func (c *Client) each(ctx context.Context, vr *v1alpha1.VidraResource, progress func(done, all int), do func(ctx context.Context, i int, e v1alpha1.ManagedResourceStatus) error) error {
	all := vr.Status.ManagedResources
	var mu sync.Mutex // guards ended
	ended := 0
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(readers)
	for i := range all {
		running.Go(func() error {
			err := do(ctx, i, all[i])
			mu.Lock()
			defer mu.Unlock()
			if ended++; progress != nil {
				progress(ended, len(all))
			}
			return err
		})
	}
	return running.Wait()
}

// patchObject sends patches of an object under the name of a field manager until one of them is for the version that was read. patch returns nil for none.
func (c *Client) patchObject(ctx context.Context, e v1alpha1.ManagedResourceStatus, manager string, patch func(live *unstructured.Unstructured) ([]byte, error)) (sent bool, err error) {
	at, err := c.objects.At(object.GVKOf(&e), e.Namespace)
	if err != nil {
		return false, err
	}
	const attempts = 10
	for range attempts {
		live, err := at.Get(ctx, e.Name, metav1.GetOptions{})
		if object.IsAbsent(err, e.Name) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("read %s: %w", object.IdentityOf(&e), err)
		}
		body, err := patch(live)
		if err != nil || body == nil {
			return false, err
		}
		_, err = at.Patch(ctx, e.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
		switch {
		case err == nil:
			return true, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("patch %s: %w", object.IdentityOf(&e), object.WithoutValues(err, ownership.Disclosure{}))
		}
	}
	return false, fmt.Errorf("patch %s: other writers change it all the time: stop them, and run the command again", object.IdentityOf(&e))
}
