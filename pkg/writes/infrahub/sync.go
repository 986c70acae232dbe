package infrahub

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/insight"
)

// Client reads and writes in one cluster. Its methods are safe for concurrent use.
type Client struct {
	program insight.Program
	dynamic dynamic.Interface
	secrets typedcorev1.SecretsGetter
}

// New returns a Client for the API server of config. It sends no request.
func New(config *rest.Config, program insight.Program) (*Client, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	secrets, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return &Client{program: program, dynamic: client, secrets: secrets}, nil
}

// Syncs lists the InfrahubSyncs.
func (c *Client) Syncs(ctx context.Context) ([]*v1alpha1.InfrahubSync, error) {
	list, err := c.dynamic.Resource(v1alpha1.SyncResource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.syncError("list", "", err)
	}
	all := make([]*v1alpha1.InfrahubSync, 0, len(list.Items))
	for i := range list.Items {
		is, err := asSync(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, is)
	}
	return all, nil
}

// Sync reads an InfrahubSync.
func (c *Client) Sync(ctx context.Context, name string) (*v1alpha1.InfrahubSync, error) {
	u, err := c.dynamic.Resource(v1alpha1.SyncResource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.syncError("get", name, err)
	}
	return asSync(u)
}

// asSync converts an object that the API server returned.
func asSync(u *unstructured.Unstructured) (*v1alpha1.InfrahubSync, error) {
	is := &v1alpha1.InfrahubSync{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, is); err != nil {
		return nil, fmt.Errorf("read InfrahubSync %s: %w", u.GetName(), err)
	}
	return is, nil
}

// SyncSpec are the fields of an InfrahubSync that a user names. Empty ones are left out.
type SyncSpec struct {
	// Name defaults to Artifact as a DNS label.
	Name string
	// URL is the Infrahub server, and Artifact the name of the artifacts on Branch, read at Date.
	URL, Artifact, Branch, Date string
	// Server and Namespace are the destination of the objects, and Account the ServiceAccount that reads and writes them.
	Server, Namespace, Account string
	// ReconcileOnEvents has edits reverted at once.
	ReconcileOnEvents bool
}

// Apply creates or changes an InfrahubSync, and returns its name.
func (c *Client) Apply(ctx context.Context, s SyncSpec) (name string, err error) {
	if _, err := HostOf(s.URL); err != nil {
		return "", err
	}
	if name = s.Name; name == "" {
		name = strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(s.Artifact)), "-")
	}
	destination := map[string]any{"reconcileOnEvents": s.ReconcileOnEvents}
	source := map[string]any{"infrahubAPIURL": s.URL, "targetBranch": s.Branch, "artefactName": s.Artifact}
	spec := map[string]any{"source": source, "destination": destination}
	for _, one := range []struct {
		in         map[string]any
		key, value string
	}{{source, "targetDate", s.Date}, {destination, "server", s.Server}, {destination, "namespace", s.Namespace}, {spec, "serviceAccountName", s.Account}} {
		if one.value != "" {
			one.in[one.key] = one.value
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))
	u.SetName(name)
	_, err = c.dynamic.Resource(v1alpha1.SyncResource).Apply(ctx, name, u, metav1.ApplyOptions{FieldManager: insight.FieldManager, Force: true})
	return name, c.syncError("apply", name, err)
}

// Request requests a query of the Infrahub server now.
func (c *Client) Request(ctx context.Context, is *v1alpha1.InfrahubSync) error {
	return c.syncError("request", is.Name, c.annotate(ctx, is.Name, v1alpha1.SyncRequestedAtAnnotation, time.Now().UTC().Format(time.RFC3339Nano)))
}

// Confirm confirms the removals of VidraResources that wait as is has them.
func (c *Client) Confirm(ctx context.Context, is *v1alpha1.InfrahubSync) error {
	return c.syncError("confirm", is.Name, c.annotate(ctx, is.Name, v1alpha1.ConfirmRemovalAnnotation, is.Status.PendingRemovals.Confirmation))
}

// Delete deletes the InfrahubSync that was read.
func (c *Client) Delete(ctx context.Context, is *v1alpha1.InfrahubSync) error {
	return c.syncError("delete", is.Name, c.dynamic.Resource(v1alpha1.SyncResource).Delete(ctx, is.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &is.UID}}))
}

// annotate sets an annotation of an InfrahubSync.
func (c *Client) annotate(ctx context.Context, name, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := c.dynamic.Resource(v1alpha1.SyncResource).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: insight.FieldManager})
	return err
}

// syncError adds the request and the next step of the user to an error about InfrahubSyncs.
func (c *Client) syncError(verb, name string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s InfrahubSyncs, which have no namespace: ask for a ClusterRoleBinding to vidra-infrahubsync-editor: %w", verb, err)
	case apierrors.IsNotFound(err) && name != "" && !cluster.IsNoResource(err):
		return fmt.Errorf("InfrahubSync %s does not exist; `%s` lists those that do", name, c.program.Hint("infrahub", "sync", "list"))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster serves no InfrahubSyncs: install their CustomResourceDefinition, or name another cluster with --context: %w", err)
	case err == nil:
		return nil
	case name == "":
		return fmt.Errorf("%s InfrahubSyncs: %w", verb, err)
	}
	return fmt.Errorf("%s InfrahubSync %s: %w", verb, name, err)
}

// HostOf returns the host of a URL, which is the value of the labels of Secrets.
func HostOf(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" || parsed.User != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) {
		return "", fmt.Errorf("%q is no URL: it must have http or https and a host, such as https://infrahub.example.com", server)
	}
	return parsed.Hostname(), nil
}
