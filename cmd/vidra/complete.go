package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// completeNames completes the names of VidraResources.
func (k *kube) completeNames(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	all, err := k.inventories(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, vr := range all {
		if !slices.Contains(given, vr.Name) && strings.HasPrefix(vr.Name, begun) {
			names = append(names, vr.Name)
		}
	}
	return typable(names), cobra.ShellCompDirectiveNoFileComp
}

// typable returns the words without control characters: the shell would print these.
func typable(words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return oneLine(word) != word })
}

// completeName completes the name of one VidraResource.
func (k *kube) completeName(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return k.completeNames(cmd, given, begun)
}

// completeObject completes KIND/NAME, or the NAME after a KIND: the managed objects of the namespace that
// the command is about, and those without one.
func (k *kube) completeObject(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 1 || len(given) == 1 && strings.Contains(given[0], "/") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, err := k.namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	all, err := k.inventories(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	words := objectWords(all, namespace)
	if len(given) == 1 {
		words = namesOfKind(given[0], words)
	}
	words = slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, begun) })
	return typable(words), cobra.ShellCompDirectiveNoFileComp
}

// completeNameOrObject completes the name of a VidraResource, or KIND/NAME.
func (k *kube) completeNameOrObject(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	objects, directive := k.completeObject(cmd, given, begun)
	if len(given) > 0 || directive == cobra.ShellCompDirectiveError {
		return objects, directive
	}
	names, directive := k.completeNames(cmd, given, begun)
	return append(names, objects...), directive
}

// inventories are the VidraResources that the user may list.
func (k *kube) inventories(cmd *cobra.Command) ([]*v1alpha1.VidraResource, error) {
	client, err := k.insight()
	if err != nil {
		return nil, err
	}
	return client.VidraResources(cmd.Context(), "")
}

// objectWords are the managed objects of a namespace, and those without one, as KIND/NAME. The group is
// in it where kinds of several groups have one name.
func objectWords(all []*v1alpha1.VidraResource, namespace string) []string {
	ids, groups := sets.New[object.Identity](), map[string]sets.Set[string]{}
	for _, vr := range all {
		for i := range vr.Status.ManagedResources {
			id := object.IdentityOf(&vr.Status.ManagedResources[i])
			if id.Namespace != "" && id.Namespace != namespace {
				continue
			}
			ids.Insert(id)
			if groups[id.Kind] == nil {
				groups[id.Kind] = sets.New[string]()
			}
			groups[id.Kind].Insert(id.Group)
		}
	}
	words := sets.New[string]()
	for id := range ids {
		kind := schema.GroupKind{Kind: id.Kind}
		if groups[id.Kind].Len() > 1 {
			kind.Group = id.Group
		}
		words.Insert(strings.ToLower(kind.String()) + "/" + id.Name)
	}
	return sets.List(words)
}

// namesOfKind are the names in words of KIND/NAME that are of a kind.
func namesOfKind(kind string, words []string) []string {
	var names []string
	for _, word := range words {
		if of, name, _ := strings.Cut(word, "/"); of == strings.ToLower(kind) {
			names = append(names, name)
		}
	}
	return names
}
