package vidratest

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/dryrun"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/owners"
)

// Cluster is a cluster with Vidra. Its methods are safe for concurrent use.
type Cluster struct {
	// Destinations opens other clusters, the destinations of VidraResources. It must stay the same after the first call of a
	// method.
	Destinations dryrun.Destinations
	// CommandLine is the name of Vidra's command line on the user's machine, for commands that errors propose. Defaults to
	// "vidra". It must stay the same after the first call of a method.
	CommandLine string

	at     *cluster.Cluster
	config *rest.Config
}

// New returns the cluster of a configuration. It sends no request.
func New(config *rest.Config) (*Cluster, error) {
	at, err := cluster.New(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{at: at, config: config}, nil
}

// commandLine is the name of Vidra's command line on the user's machine.
func (c *Cluster) commandLine() string { return cmp.Or(c.CommandLine, "vidra") }

// Object names an object that a VidraResource manages. It is in the cluster of the VidraResource, or, if none manages such an
// object there, in the only other cluster with a VidraResource that does.
type Object struct {
	schema.GroupKind
	// Namespace is empty for cluster-scoped kinds.
	Namespace, Name string
}

// String names the object in messages: kind, namespace and name.
func (o Object) String() string { return o.identity().String() }

func (o Object) identity() object.Identity { return object.Identity(o) }

// keeper is a VidraResource that keeps an object.
type keeper struct {
	runner *dryrun.Runner
	object *desired.Object
}

// get reads a VidraResource.
func (c *Cluster) get(ctx context.Context, name string) (*v1alpha1.VidraResource, error) {
	u, err := c.at.Dynamic().Resource(v1alpha1.Resource).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", name, err)
	}
	return fromUnstructured(u)
}

func fromUnstructured(u *unstructured.Unstructured) (*v1alpha1.VidraResource, error) {
	vr := &v1alpha1.VidraResource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, vr); err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", u.GetName(), err)
	}
	return vr, nil
}

// keepers returns the VidraResources that have an object in their inventory.
func (c *Cluster) keepers(ctx context.Context, o Object) ([]*keeper, error) {
	list, err := c.at.Dynamic().Resource(v1alpha1.Resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list VidraResources: %w", err)
	}
	var local, remote []*v1alpha1.VidraResource
	for i := range list.Items {
		vr, err := fromUnstructured(&list.Items[i])
		switch {
		case err != nil:
			return nil, err
		case owners.EntryOf(vr, o.identity()) == nil:
		case access.IsLocal(vr.Spec.Destination.Server):
			local = append(local, vr)
		default:
			remote = append(remote, vr)
		}
	}
	if len(local) == 0 {
		local = remote
	}
	var keepers []*keeper
	for _, vr := range local {
		k, err := c.keeper(ctx, vr, o)
		if err != nil {
			return nil, err
		}
		if keepers = append(keepers, k); k.runner.At != keepers[0].runner.At {
			return nil, fmt.Errorf("VidraResources %s and %s manage %s in different clusters: name one with `%s drill NAME`", keepers[0].runner.VR.Name, vr.Name, o, c.commandLine())
		}
	}
	if len(keepers) == 0 {
		return nil, fmt.Errorf("no VidraResource of this cluster manages %s: none has it in its inventory (%d searched)", o, len(list.Items))
	}
	return keepers, nil
}

// runner sends dry runs to the cluster of the objects of a VidraResource.
func (c *Cluster) runner(ctx context.Context, vr *v1alpha1.VidraResource) (*dryrun.Runner, error) {
	at, err := c.Destinations.Of(ctx, c.at, c.config, vr)
	if err != nil {
		return nil, err
	}
	return dryrun.New(c.at.Dynamic(), at, vr), nil
}

// keeper finds an object in the manifest of a VidraResource.
func (c *Cluster) keeper(ctx context.Context, vr *v1alpha1.VidraResource, o Object) (*keeper, error) {
	runner, err := c.runner(ctx, vr)
	if err != nil {
		return nil, err
	}
	resolved, err := runner.Objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range resolved.Objects {
		if d.ID == o.identity() {
			return &keeper{runner: runner, object: d}, nil
		}
	}
	return nil, fmt.Errorf("the manifest of VidraResource %s does not have %s", vr.Name, o)
}

// resource is the client for the object.
func (k *keeper) resource() dynamic.ResourceInterface { return k.runner.Resource(k.object) }

// difference is the difference of an object from the wanted one. Its zero value is no difference.
type difference struct {
	// deleted reports that the object is absent.
	deleted bool
	changes []ownership.Change
	// refused is the refusal of an apply by the API server.
	refused string
}

func (d difference) any() bool { return d.deleted || len(d.changes) > 0 || d.refused != "" }

// differenceIn asks the API server for the changes that an apply of each VidraResource would revert in an object.
func differenceIn(ctx context.Context, keepers []*keeper, live *unstructured.Unstructured) (difference, error) {
	if live == nil {
		return difference{deleted: true}, nil
	}
	var d difference
	for _, k := range keepers {
		changes, err := k.runner.Changes(ctx, k.object, live)
		switch {
		case err != nil && !isAnswer(err):
			return d, fmt.Errorf("dry run of %s: %w", k.object.ID, err)
		case err != nil:
			d.refused = object.Explain(err, k.object.GVK, k.object.ID, k.runner.Disclosure(k.object, live)).Message
		}
		d.changes = append(d.changes, changes...)
	}
	return d, nil
}

// errEnded is the error of a watch that the API server ended.
var errEnded = errors.New("the API server ended the watch: try again")
