package infrahub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
)

// SecretKind is a kind of Secret that configures servers. Its label has the host of the server.
type SecretKind struct {
	// Label is the key of the label.
	Label string

	prefix, noun string
}

// The kinds of Secrets.
var (
	Credentials = SecretKind{v1alpha1.InfrahubURLLabel, "infrahub-credentials-", "credentials"}
	Kubeconfigs = SecretKind{cluster.KubeconfigLabel, "cluster-kubeconfig-", "kubeconfig"}
)

// ApplyCredentials writes the credentials of an Infrahub server. data has them by their keys, without the URL. Credentials that another client wrote into
// the Secret are removed: a token counts before a password.
func (c *Client) ApplyCredentials(ctx context.Context, namespace, server string, data map[string][]byte) (*corev1.Secret, error) {
	host, err := HostOf(server)
	if err != nil {
		return nil, err
	}
	data["infrahubapiurl"] = []byte(strings.TrimSuffix(server, "/"))
	made, err := c.apply(ctx, Credentials, namespace, host, server, data)
	if err != nil {
		return nil, err
	}
	former := map[string]any{}
	for _, key := range []string{"token", "username", "password"} {
		if _, is := made.Data[key]; is && data[key] == nil {
			former[key] = nil
		}
	}
	if len(former) == 0 {
		return made, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": made.ResourceVersion}, "data": former})
	if err != nil {
		return nil, err
	}
	made, err = c.secrets.Secrets(namespace).Patch(ctx, made.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: insight.FieldManager})
	if err != nil {
		return nil, secretError("patch", namespace, err)
	}
	return made, nil
}

// ApplyKubeconfig writes the kubeconfig of a context, with its cluster and user alone. It also returns the server.
func (c *Client) ApplyKubeconfig(ctx context.Context, namespace, context string, raw clientcmdapi.Config) (made *corev1.Secret, server string, err error) {
	raw.CurrentContext = context
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return nil, "", fmt.Errorf("context %s is not in the kubeconfig, or it is incomplete: kubectl config get-contexts lists them", context)
	}
	if err := clientcmdapi.FlattenConfig(&raw); err != nil {
		return nil, "", fmt.Errorf("read the files that context %s names: %w", context, err)
	}
	server = raw.Clusters[raw.Contexts[context].Cluster].Server
	host, err := HostOf(server)
	if err != nil {
		return nil, "", fmt.Errorf("the server of context %s: %w", context, err)
	}
	kubeconfig, err := clientcmd.Write(raw)
	if err != nil {
		return nil, "", errors.New("the kubeconfig cannot be written") // the error may quote it
	}
	made, err = c.apply(ctx, Kubeconfigs, namespace, host, server, map[string][]byte{"kubeconfig": kubeconfig})
	return made, server, err
}

// apply writes the Secret of a server: the Secret with the label of its host that is for the server, or a new one.
func (c *Client) apply(ctx context.Context, kind SecretKind, namespace, host, server string, data map[string][]byte) (*corev1.Secret, error) {
	all, err := c.SecretsOf(ctx, kind, namespace, host)
	if err != nil {
		return nil, err
	}
	found, err := kind.of(all, server)
	if err != nil {
		return nil, err
	}
	name, free := kind.nameOf(host), true
	switch {
	case len(found) > 1:
		return nil, kind.several(len(found), namespace, host)
	case len(found) == 1:
		name, free = found[0].Name, false
	case len(all) > 0 && kind == Credentials:
		return nil, fmt.Errorf("Secret %s/%s has the credentials of another URL of %s, and Vidra uses one Secret for a host: delete it", namespace, all[0].Name, host) //nolint:staticcheck // it begins with a kind
	case slices.ContainsFunc(all, func(one corev1.Secret) bool { return one.Name == name }): // of another port
		name = kind.nameOf(server)
	}
	if free {
		if _, err := c.secrets.Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			return nil, fmt.Errorf("Secret %s/%s exists without the label %s=%s: delete or rename it", namespace, name, kind.Label, host) //nolint:staticcheck // it begins with a kind
		} else if !object.IsAbsent(err, name) {
			return nil, secretError("get", namespace, err)
		}
	}
	secret := corev1ac.Secret(name, namespace).WithLabels(map[string]string{kind.Label: host}).WithType(corev1.SecretTypeOpaque).WithData(data)
	made, err := c.secrets.Secrets(namespace).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: insight.FieldManager, Force: true})
	if err != nil {
		return nil, secretError("patch", namespace, err)
	}
	return made, nil
}

// nameOf returns the name of a new Secret of a host or server.
func (k SecretKind) nameOf(server string) string {
	sum := sha256.Sum256([]byte(server))
	return k.prefix + hex.EncodeToString(sum[:])[:8]
}

// of returns the Secrets that are for a server, of those with the label of its host: a host may have several servers, at other ports. It fails for one that
// is for others, too.
func (k SecretKind) of(all []corev1.Secret, server string) (found []corev1.Secret, err error) {
	want, err := k.normalize(server)
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		switch servers := k.serversOf(&one, server); {
		case !slices.Contains(servers, want):
		case len(servers) > 1:
			return nil, fmt.Errorf("Secret %s/%s has the %s of other servers, too: change it with kubectl", one.Namespace, one.Name, k) //nolint:staticcheck // it begins with a kind
		default:
			found = append(found, one)
		}
	}
	return found, nil
}

// serversOf returns the URLs that a Secret is for, as normalize returns them. Credentials without a URL are for any server of the host.
func (k SecretKind) serversOf(secret *corev1.Secret, server string) []string {
	if k == Kubeconfigs {
		return cluster.ServersOf(secret.Data)
	}
	only := cmp.Or(strings.TrimSpace(string(secret.Data["infrahubapiurl"])), server)
	if scheme, _, _ := strings.Cut(server, "://"); !strings.Contains(only, "://") {
		only = scheme + "://" + only
	}
	normalized, err := k.normalize(only)
	if err != nil {
		return nil
	}
	return []string{normalized}
}

// normalize returns a URL as cluster.NormalizeServer does; for credentials without its path, as they are for all of them.
func (k SecretKind) normalize(server string) (string, error) {
	if u, err := url.Parse(server); err == nil && k == Credentials {
		u.Path = ""
		server = u.String()
	}
	return cluster.NormalizeServer(server)
}

// several is the error of a host with several Secrets.
func (k SecretKind) several(n int, namespace, host string) error {
	return fmt.Errorf("%d Secrets in namespace %s have the label %s=%s: delete one of them with kubectl", n, namespace, k.Label, host)
}

// SecretsOf returns the Secrets of a host, or all with the label of the kind for an empty one, in the order of their names.
func (c *Client) SecretsOf(ctx context.Context, kind SecretKind, namespace, host string) ([]corev1.Secret, error) {
	selector := kind.Label
	if host != "" {
		selector += "=" + host
	}
	list, err := c.secrets.Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, secretError("list", namespace, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// DeleteSecret deletes the Secret of a server, which is a URL or the host in the label, and returns it. It fails if there are several. A URL has the Secret
// of its port alone.
func (c *Client) DeleteSecret(ctx context.Context, kind SecretKind, namespace, server string) (*corev1.Secret, error) {
	host, err := HostOf(server)
	isURL := err == nil
	if _, plain := url.Parse("//" + server); !isURL && plain == nil && !strings.Contains(server, "/") {
		host, err = server, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := c.SecretsOf(ctx, kind, namespace, host)
	if err == nil && isURL {
		found, err = kind.of(found, server)
	}
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("no Secret in namespace %s has the label %s=%s and is for %s", namespace, kind.Label, host, server)
	case len(found) > 1:
		return nil, kind.several(len(found), namespace, host)
	}
	one := &found[0]
	err = c.secrets.Secrets(namespace).Delete(ctx, one.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion}})
	if err != nil {
		return nil, secretError("delete", namespace, err)
	}
	return one, nil
}

// String names the content of the Secrets of the kind.
func (k SecretKind) String() string { return k.noun }

// secretError adds the next step of the user to an error about Secrets.
func secretError(verb, namespace string, err error) error {
	if ownership.LacksRight(err) {
		return fmt.Errorf("you may not %s Secrets in namespace %s: ask for the right, or name another namespace with --namespace: %w", verb, namespace, err)
	}
	return fmt.Errorf("%s Secrets in namespace %s: %w", verb, namespace, object.WithoutValues(err, ownership.Disclosure{})) // a policy may quote them
}
