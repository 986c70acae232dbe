package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
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
	return slices.DeleteFunc(words, func(word string) bool { return render.Line(word) != word })
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
	kind := ""
	if len(given) == 1 {
		kind = given[0]
	}
	words := insight.Words(all, namespace, kind)
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
