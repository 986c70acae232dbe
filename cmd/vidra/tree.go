package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/trigger"
)

const treeHelp = `Show the objects of a VidraResource with their state and health, and below each the
objects that it owns, as their ownerReferences name it.

All namespaced kinds that you may list are searched for owned objects, in the
namespaces of the VidraResource. --namespace shows the objects of one namespace.`

const treeExample = `  vidra tree shop
  vidra tree shop -n shop-prod`

// treeFlags holds the flags of the command.
type treeFlags struct {
	*kube
	output string
}

func newTree(k *kube) *cobra.Command {
	f := &treeFlags{kube: k}
	cmd := &cobra.Command{
		Use: "tree NAME", Short: "Show the objects of a VidraResource, and what they own",
		Long: treeHelp, Example: treeExample,
		Args: wants(cobra.ExactArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd.Context(), names[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolP("all-namespaces", "A", false, "objects in any namespace, which is the default")
	addOutput(cmd, &f.output, outputWide, outputJSON, outputYAML, outputName)
	return cmd
}

// branch is an object with those that it owns.
type branch struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// State is that of the inventory; none for owned objects.
	State string `json:"state,omitempty"`
	// Health is what kstatus makes of the object; Message is why it is not Current.
	Health  string       `json:"health,omitempty"`
	Message string       `json:"message,omitempty"`
	Created *metav1.Time `json:"created,omitempty"`
	Owned   []*branch    `json:"owned,omitempty"`

	uid types.UID
}

func (f *treeFlags) run(ctx context.Context, name string, out, errOut io.Writer) error {
	if err := validateNamespace(*f.Namespace); err != nil {
		return err
	}
	client, err := f.dynamic()
	if err != nil {
		return err
	}
	vr, err := getVidraResource(ctx, client, name)
	if err != nil {
		return err
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return fmt.Errorf("find the kinds: %w", err)
	}
	tree := &treeReader{client: client, mapper: mapper, local: !remote(vr), errOut: errOut}
	if !tree.local {
		printMessage(errOut, "the objects are in "+vr.Spec.Destination.Server+": what they own, their health and their age are not shown")
	}
	branches := tree.objects(ctx, vr, *f.Namespace)
	if tree.local {
		discovery, err := f.ToDiscoveryClient()
		if err != nil {
			return fmt.Errorf("find the kinds: %w", err)
		}
		if err := tree.addOwned(ctx, discovery, branches); err != nil {
			return err
		}
	}
	switch f.output {
	case outputJSON, outputYAML:
		return printDocument(out, f.output, map[string]any{"vidraResource": name, "objects": branches})
	case outputName:
		return printText(out, namesOf(branches))
	}
	return printText(out, treeText(vr, branches, &textTable{colour: coloured(out)}, f.output == outputWide, time.Now()))
}

// treeReader reads objects, and those that they own.
type treeReader struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	// local reports that the objects are in the cluster of the client.
	local  bool
	errOut io.Writer
}

// readers is how many requests are sent at a time.
const readers = 16

// objects are the objects of the inventory, in its order.
func (t *treeReader) objects(ctx context.Context, vr *v1alpha1.VidraResource, namespace string) []*branch {
	branches := []*branch{}
	var reading errgroup.Group
	reading.SetLimit(readers)
	for _, e := range vr.Status.ManagedResources {
		if namespace != "" && e.Namespace != namespace {
			continue
		}
		b := &branch{APIVersion: e.APIVersion, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, State: string(e.State)}
		branches = append(branches, b)
		if t.local {
			reading.Go(func() error {
				t.read(ctx, b)
				return nil
			})
		}
	}
	_ = reading.Wait() // an object that cannot be read is shown without health
	slices.SortStableFunc(branches, compareBranches)
	return branches
}

func compareBranches(a, b *branch) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// read adds what the live object shows.
func (t *treeReader) read(ctx context.Context, b *branch) {
	gvk := schema.FromAPIVersionAndKind(b.APIVersion, b.Kind)
	mapping, err := t.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		b.Health, b.Message = "Unknown", "the cluster does not serve its kind"
		return
	}
	live, err := t.client.Resource(mapping.Resource).Namespace(b.Namespace).Get(ctx, b.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		b.Health = "NotFound"
		if v1alpha1.ObjectState(b.State) == v1alpha1.ObjectCompleted {
			b.Health, b.Message = "", "ended successfully, and its own controller removed it"
		}
	case apierrors.IsForbidden(err):
		b.Health, b.Message = "Unknown", "you may not read it"
	case err != nil:
		b.Health, b.Message = "Unknown", err.Error()
	default:
		b.show(live)
	}
}

// show adds what a live object shows.
func (b *branch) show(live *unstructured.Unstructured) {
	health := trigger.ComputeHealth(live)
	b.Health, b.Message = string(health.Status), health.Message
	b.Created, b.uid = ptrTo(live.GetCreationTimestamp()), live.GetUID()
}

func ptrTo[T any](v T) *T { return &v }

// addOwned adds the objects that others own. What may not be listed is counted.
func (t *treeReader) addOwned(ctx context.Context, kinds discovery.DiscoveryInterface, branches []*branch) error {
	namespaces := map[string]bool{}
	byUID := map[types.UID]*branch{}
	for _, b := range branches {
		if b.uid != "" {
			byUID[b.uid] = b
		}
		if b.Namespace != "" && b.uid != "" {
			namespaces[b.Namespace] = true
		}
	}
	if len(namespaces) == 0 {
		return nil
	}
	lists, err := kinds.ServerPreferredNamespacedResources()
	if len(lists) == 0 && err != nil {
		return fmt.Errorf("find the kinds: %w", err)
	}
	found, refused := t.owned(ctx, listable(lists), namespaces)
	for grew := true; grew; { // an object may be listed before its owner
		grew = false
		for _, u := range found {
			if _, known := byUID[u.GetUID()]; known {
				continue
			}
			for _, owner := range u.GetOwnerReferences() {
				if above := byUID[owner.UID]; above != nil {
					b := &branch{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
					b.show(u)
					above.Owned, byUID[u.GetUID()], grew = append(above.Owned, b), b, true
					slices.SortFunc(above.Owned, compareBranches)
					break
				}
			}
		}
	}
	if refused > 0 {
		printMessage(t.errOut, fmt.Sprintf("you may not list %s: owned objects of them are not shown", plural(refused, "kind")))
	}
	return nil
}

// listable are the resources that can be listed, apart from Events, which own nothing and are many.
func listable(lists []*metav1.APIResourceList) []schema.GroupVersionResource {
	var all []schema.GroupVersionResource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if r.Name != "events" && !strings.Contains(r.Name, "/") {
				all = append(all, gv.WithResource(r.Name))
			}
		}
	}
	return all
}

// owned lists the objects with an owner, in namespaces, and counts the kinds that could not be listed.
func (t *treeReader) owned(ctx context.Context, resources []schema.GroupVersionResource, namespaces map[string]bool) (found []*unstructured.Unstructured, refused int) {
	type answer struct {
		items   []*unstructured.Unstructured
		refused bool
	}
	answers := make([]answer, len(resources))
	var reading errgroup.Group
	reading.SetLimit(readers)
	for i, gvr := range resources {
		reading.Go(func() error {
			for namespace := range namespaces {
				list, err := t.client.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
				if err != nil {
					answers[i].refused = true
					continue
				}
				for j := range list.Items {
					if u := &list.Items[j]; len(u.GetOwnerReferences()) > 0 {
						answers[i].items = append(answers[i].items, u)
					}
				}
			}
			return nil
		})
	}
	_ = reading.Wait() // refusals are counted
	for _, a := range answers {
		found = append(found, a.items...)
		if a.refused {
			refused++
		}
	}
	return found, refused
}
