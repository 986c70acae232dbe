package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/parts"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// readers is how many objects are exported at the same time.
const readers = 4

// Client exports objects of one cluster, with the rights of one user.
type Client struct {
	questions *insight.Client
	objects   *Objects
}

// New returns a Client for the API server of config. It sends no request.
func New(config *rest.Config, o insight.Options) (*Client, error) {
	questions, err := insight.New(config, o)
	if err != nil {
		return nil, err
	}
	objects, err := NewObjects(config)
	if err != nil {
		return nil, err
	}
	return &Client{questions, objects}, nil
}

// Exported is a manifest of live objects.
type Exported struct {
	// Objects are the documents, in the order of an apply.
	Objects []*unstructured.Unstructured
	// Remarks are messages to the user, such as the objects that are left out.
	Remarks []string
}

// VidraResource returns the objects that a VidraResource manages, as they are.
func (c *Client) VidraResource(ctx context.Context, name string) (*Selected, error) {
	vr, err := c.questions.VidraResource(ctx, name)
	if err != nil {
		return nil, err
	}
	if !access.IsLocal(vr.Spec.Destination.Server) {
		return nil, fmt.Errorf("the objects of VidraResource %s are in another cluster: use a kubeconfig for that, with -n and -l", name)
	}
	found := &Selected{}
	for i := range vr.Status.ManagedResources {
		e := &vr.Status.ManagedResources[i]
		at, err := c.objects.At(object.GVKOf(e), e.Namespace)
		if err != nil {
			return nil, err
		}
		u, err := at.Get(ctx, e.Name, metav1.GetOptions{})
		switch {
		case err == nil:
			found.Objects = append(found.Objects, u)
		case object.IsAbsent(err, e.Name):
			found.Unread = append(found.Unread, object.IdentityOf(e).String()+" does not exist")
		default:
			return nil, fmt.Errorf("read %s: %w", object.IdentityOf(e), err)
		}
	}
	return found, nil
}

// Select returns the objects that a query selects.
func (c *Client) Select(ctx context.Context, q Query) (*Selected, error) {
	return c.objects.Select(ctx, q)
}

// Export returns documents for objects. Sensitive objects are included only if secrets is true. progress may be nil.
func (c *Client) Export(ctx context.Context, from *Selected, secrets bool, progress func(done, all int)) (*Exported, error) {
	out := &Exported{Remarks: slices.Clone(from.Unread)}
	var live []*unstructured.Unstructured
	left := 0
	for _, u := range from.Objects {
		if !secrets && parts.Sensitive(u) {
			left++
			continue
		}
		live = append(live, u)
	}
	for _, one := range []struct {
		n   int
		why string
	}{{left, "with values that are not shown: --with-secrets prints them"}, {from.Owned, "that another object owns"}, {from.System, "that Kubernetes makes by itself"}} {
		if one.n > 0 {
			out.Remarks = append(out.Remarks, fmt.Sprintf("left out %s %s", display.Plural(one.n, "object"), one.why))
		}
	}
	if len(live) == 0 {
		return out, errors.New("no object found: name others with -n and -l")
	}
	out.Objects = make([]*unstructured.Unstructured, len(live))
	var mu sync.Mutex // guards out.Remarks and done
	done := 0
	running, ctx := errgroup.WithContext(ctx)
	running.SetLimit(readers)
	for i, u := range live {
		running.Go(func() error {
			document, remark, err := c.document(ctx, u)
			mu.Lock()
			defer mu.Unlock()
			out.Objects[i] = document
			if remark != "" {
				out.Remarks = append(out.Remarks, remark)
			}
			if done++; progress != nil {
				progress(done, len(live))
			}
			return err
		})
	}
	if err := running.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(out.Remarks)
	slices.SortStableFunc(out.Objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(object.IdentityIn(a).Stage(), object.IdentityIn(b).Stage()), strings.Compare(a.GroupVersionKind().Group, b.GroupVersionKind().Group), strings.Compare(a.GetKind(), b.GetKind()),
			strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out, nil
}

// document returns the document of an object, and a message if it could be smaller, or is incomplete.
func (c *Client) document(ctx context.Context, live *unstructured.Unstructured) (document *unstructured.Unstructured, remark string, err error) {
	id := object.IdentityIn(live)
	at, err := c.objects.At(live.GroupVersionKind(), live.GetNamespace())
	if err != nil {
		return nil, "", err
	}
	whole := clean(live)
	found, err := defaults(ctx, at, live, whole)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, "", err
	case err != nil:
		return whole, fmt.Sprintf("%s: you may not update it, so that it has defaults and is not checked", id), nil //nolint:nilerr // the message says it
	}
	document = whole.DeepCopy()
	remove(document.Object, found)
	for _, one := range []*unstructured.Unstructured{document, whole} {
		switch same, err := unchanged(ctx, at, live, one); {
		case same:
			return one, "", nil
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
			remark = fmt.Sprintf("%s: the API server accepts no apply of its document: kubectl apply --dry-run=server names the reason", id)
		case err != nil:
			remark = fmt.Sprintf("%s: the dry run of an apply of its document failed: %v", id, object.WithoutValues(err, ownership.Disclosure{}))
		default:
			remark = fmt.Sprintf("%s: an apply of its document changes it: compare with kubectl diff", id)
		}
	}
	return whole, remark, nil
}

// unchanged reports whether an apply of a document leaves the object as it is.
func unchanged(ctx context.Context, at dynamic.ResourceInterface, live, document *unstructured.Unstructured) (bool, error) {
	body, err := json.Marshal(document.Object)
	if err != nil {
		return false, err
	}
	applied, err := at.Patch(ctx, live.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: insight.FieldManager, Force: ptr.To(true), DryRun: []string{metav1.DryRunAll}})
	return err == nil && sameContent(live, applied), err
}
