package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// fieldManager is the field manager of what the commands write. It counts as a tool of users, as
// kubectl and its other plugins do (ownership.DefaultTools).
const fieldManager = "kubectl-vidra"

// vidraResources is the resource of VidraResources.
var vidraResources = v1alpha1.GroupVersion.WithResource("vidraresources")

// kube is the cluster that the flags of kubectl name. All commands share it.
type kube struct{ *genericclioptions.ConfigFlags }

// newKube returns the flags with the defaults of kubectl.
func newKube() *kube { return &kube{genericclioptions.NewConfigFlags(true)} }

// config finds the cluster as kubectl does: in the named file, those of KUBECONFIG or
// ~/.kube/config, or else in the Pod that this runs in.
func (k *kube) config() (*rest.Config, error) {
	config, err := k.ToRESTConfig()
	if err == nil && k.unnamed() { // kubectl would take a server on this machine
		err = clientcmd.ErrEmptyConfig
	}
	switch {
	case err == nil:
		config.QPS, config.Burst = -1, 0 // the API server limits, not we
		return config, nil
	case *k.KubeConfig != "":
		return nil, fmt.Errorf("--kubeconfig %s: %w", *k.KubeConfig, err)
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("no cluster is named: set KUBECONFIG or --kubeconfig: %w", err)
	}
	return nil, fmt.Errorf("read the kubeconfig: %w", err)
}

// unnamed reports whether nothing names a cluster.
func (k *kube) unnamed() bool {
	raw, err := k.ToRawKubeConfigLoader().RawConfig()
	if err != nil || len(raw.Clusters) > 0 || *k.APIServer != "" {
		return false
	}
	_, err = rest.InClusterConfig()
	return err != nil
}

// namespace is that of --namespace, or else that of the context of the kubeconfig.
func (k *kube) namespace() (string, error) {
	if err := validateNamespace(*k.Namespace); err != nil {
		return "", err
	}
	namespace, _, err := k.ToRawKubeConfigLoader().Namespace()
	return cmp.Or(namespace, metav1.NamespaceDefault), err
}

// validateNamespace checks the value of --namespace.
func validateNamespace(namespace string) error {
	if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
		return fmt.Errorf("--namespace %q: want the name of a namespace: %s", namespace, nameRule(problems))
	}
	return nil
}

// nameRule is the rule of a name that is not valid, without the example and the regular expression that follow it.
func nameRule(problems []string) string {
	rule, _, _ := strings.Cut(problems[0], " (e.g. ")
	return rule
}

// dynamic returns a client for objects of any kind.
func (k *kube) dynamic() (dynamic.Interface, error) {
	config, err := k.config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	return client, nil
}

// getVidraResource reads a VidraResource.
func getVidraResource(ctx context.Context, client dynamic.Interface, name string) (*v1alpha1.VidraResource, error) {
	u, err := client.Resource(vidraResources).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !isNoResource(err) {
		all, _ := listVidraResources(ctx, client, "") // without the right to list them, none is proposed
		return nil, noVidraResource(name, all)
	} else if err != nil {
		return nil, vidraResourceError("get", name, err)
	}
	return asVidraResource(u)
}

// noVidraResource is the error about a VidraResource that does not exist, with those of all that the user may mean.
func noVidraResource(name string, all []*v1alpha1.VidraResource) error {
	names := make([]string, 0, len(all))
	for _, vr := range all {
		names = append(names, vr.Name)
	}
	return fmt.Errorf("VidraResource %s does not exist; `%s` lists those that do%s", name, hint("get"), didYouMean(similar(name, names)))
}

// listVidraResources reads the VidraResources that a label selector selects, in the order of their names.
func listVidraResources(ctx context.Context, client dynamic.Interface, selector string) ([]*v1alpha1.VidraResource, error) {
	list, err := client.Resource(vidraResources).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, vidraResourceError("list", "", err)
	}
	all := make([]*v1alpha1.VidraResource, 0, len(list.Items))
	for i := range list.Items {
		vr, err := asVidraResource(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, vr)
	}
	slices.SortFunc(all, func(a, b *v1alpha1.VidraResource) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// asVidraResource converts what the API server returned.
func asVidraResource(u *unstructured.Unstructured) (*v1alpha1.VidraResource, error) {
	vr := &v1alpha1.VidraResource{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, vr); err != nil {
		return nil, fmt.Errorf("read VidraResource %s: %w", u.GetName(), err)
	}
	return vr, nil
}

// vidraResourceError adds to an error about VidraResources what the user can do.
func vidraResourceError(verb, name string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s VidraResources, which have no namespace: ask for a ClusterRoleBinding to a role with "+
			"that right on %s, such as %s: %w", verb, vidraResources.GroupResource(), roleFor(verb), err)
	case apierrors.IsNotFound(err) && name != "" && !isNoResource(err):
		return noVidraResource(name, nil)
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster serves no VidraResources: install Vidra, or name another cluster with --context: %w", err)
	}
	return err
}

// roleFor is the ClusterRole of config/rbac that has a right on VidraResources.
func roleFor(verb string) string {
	if slices.Contains([]string{"get", "list", "watch"}, verb) {
		return "vidra-vidraresource-viewer"
	}
	return "vidra-vidraresource-editor"
}

// isNoResource reports whether the API server does not serve the resource, rather than one object of it.
func isNoResource(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Details == nil || status.Status().Details.Name == "")
}

// reachable adds to an error what to do if it is that of the network.
func reachable(err error) error {
	var request *url.Error
	var network net.Error
	if errors.As(err, &request) && errors.As(request.Err, &network) {
		return fmt.Errorf("the API server cannot be reached: check --context, --kubeconfig and the network: %w", err)
	}
	return err
}
