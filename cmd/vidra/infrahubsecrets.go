package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// secretKind is a kind of Secret that the commands write: it has a label with a host.
type secretKind struct {
	label, prefix, noun string
}

var (
	credentialsSecrets = secretKind{v1alpha1.InfrahubURLLabel, "infrahub-credentials-", "credentials"}
	kubeconfigSecrets  = secretKind{cluster.KubeconfigLabel, "cluster-kubeconfig-", "kubeconfig"}
)

// secrets returns the Secrets of the cluster, and the namespace of the commands.
func (k *kube) secrets() (typedcorev1.SecretsGetter, string, error) {
	if err := validateNamespace(*k.Namespace); err != nil {
		return nil, "", err
	}
	config, err := k.config()
	if err != nil {
		return nil, "", err
	}
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("use the kubeconfig: %w", err)
	}
	return client, cmp.Or(*k.Namespace, operatorNamespace), nil
}

func newCredentials(k *kube) *cobra.Command {
	cmd := &cobra.Command{Use: "credentials", Short: "List, write and delete Secrets with credentials of Infrahub servers"}
	f := &credentialsFlags{kube: k}
	apply := &cobra.Command{
		Use: "apply URL", Short: "Write the credentials of an Infrahub server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.apply(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	apply.Flags().StringVarP(&f.username, "username", "u", "", "the name of the account in Infrahub, with --password-file")
	apply.Flags().StringVar(&f.password, "password-file", "", "a file with the password; - reads the standard input")
	apply.Flags().StringVar(&f.token, "token-file", "", "a file with an API token, instead of username and password; - reads the standard input")
	apply.Flags().StringVar(&f.ca, "ca-file", "", "a file with the CA of the server in PEM")
	apply.MarkFlagsMutuallyExclusive("token-file", "username")
	apply.MarkFlagsRequiredTogether("username", "password-file")
	apply.MarkFlagsOneRequired("username", "token-file")
	cmd.AddCommand(apply, credentialsSecrets.list(k, "HOST"), credentialsSecrets.delete(k, "URL", hostOf))
	return cmd
}

// credentialsFlags hold the flags of credentials apply.
type credentialsFlags struct {
	*kube
	username, password, token, ca string
}

func (f *credentialsFlags) apply(ctx context.Context, server string, in io.Reader, out io.Writer) error {
	host, err := hostOf(server)
	if err != nil {
		return err
	}
	data := map[string][]byte{"infrahubapiurl": []byte(strings.TrimSuffix(server, "/"))}
	for _, one := range []struct{ key, file string }{{"password", f.password}, {"token", f.token}, {"ca.crt", f.ca}} {
		if one.file == "" {
			continue
		}
		value, err := readSecretFile(one.file, in)
		if err != nil {
			return fmt.Errorf("read the %s: %w", one.key, err)
		}
		data[one.key] = []byte(value)
	}
	if f.username != "" {
		data["username"] = []byte(f.username)
	}
	return credentialsSecrets.apply(ctx, f.kube, host, host, data, out)
}

func newCluster(k *kube) *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "List, write and delete Secrets with kubeconfigs of other clusters"}
	cmd.AddCommand(&cobra.Command{
		Use: "apply CONTEXT", Short: "Write the kubeconfig of one of your contexts", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return applyCluster(cmd.Context(), k, args[0], cmd.OutOrStdout())
		},
	}, kubeconfigSecrets.list(k, "HOST"), kubeconfigSecrets.delete(k, "URL", hostOf))
	return cmd
}

// applyCluster writes the Secret with the kubeconfig of a context: its cluster and user alone.
func applyCluster(ctx context.Context, k *kube, context string, out io.Writer) error {
	raw, err := k.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	raw.CurrentContext = context
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return fmt.Errorf("context %s is not in the kubeconfig, or it is incomplete: kubectl config get-contexts lists them", context)
	}
	if err := clientcmdapi.FlattenConfig(&raw); err != nil {
		return fmt.Errorf("read the files that context %s names: %w", context, err)
	}
	server := raw.Clusters[raw.Contexts[context].Cluster].Server
	host, err := hostOf(server)
	if err != nil {
		return fmt.Errorf("the server of context %s: %w", context, err)
	}
	kubeconfig, err := clientcmd.Write(raw)
	if err != nil {
		return errors.New("the kubeconfig cannot be written") // the error may quote it
	}
	return kubeconfigSecrets.apply(ctx, k, host, server, map[string][]byte{"kubeconfig": kubeconfig}, out)
}

// apply writes the Secret of a host: the one with its label, or a new one. about names what it is for.
func (s secretKind) apply(ctx context.Context, k *kube, host, about string, data map[string][]byte, out io.Writer) error {
	client, namespace, err := k.secrets()
	if err != nil {
		return err
	}
	found, err := s.find(ctx, client, namespace, host)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(host))
	name := s.prefix + hex.EncodeToString(sum[:])[:8]
	if len(found) > 0 {
		name = found[0].Name
	} else if _, err := client.Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
		return fmt.Errorf("Secret %s/%s exists without the label %s=%s: delete or rename it", namespace, name, s.label, host) //nolint:staticcheck // it begins with a kind
	} else if !apierrors.IsNotFound(err) {
		return s.secretError("get", namespace, err)
	}
	secret := corev1ac.Secret(name, namespace).WithLabels(map[string]string{s.label: host}).WithType(corev1.SecretTypeOpaque).WithData(data)
	if _, err := client.Secrets(namespace).Apply(ctx, secret, metav1.ApplyOptions{FieldManager: writes.FieldManager, Force: true}); err != nil {
		if apierrors.IsForbidden(err) {
			return s.secretError("patch", namespace, err)
		}
		return fmt.Errorf("write Secret %s/%s: the API server answered %s", namespace, name, apierrors.ReasonForError(err)) // its message may quote it
	}
	return printText(out, sprintf("applied Secret %s/%s with the %s of %s\n", namespace, name, s.noun, about))
}

// find returns the Secrets of a host, or all with the label for an empty one, in the order of their names.
func (s secretKind) find(ctx context.Context, client typedcorev1.SecretsGetter, namespace, host string) ([]corev1.Secret, error) {
	selector := s.label
	if host != "" {
		selector += "=" + host
	}
	list, err := client.Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, s.secretError("list", namespace, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Secret) int { return cmp.Compare(a.Name, b.Name) })
	return list.Items, nil
}

func (s secretKind) secretError(verb, namespace string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not %s Secrets in namespace %s: ask for the right, or name another namespace with --namespace: %w", verb, namespace, err)
	}
	return fmt.Errorf("%s Secrets in namespace %s: %w", verb, namespace, err)
}

// list makes the command that lists the Secrets, without their values.
func (s secretKind) list(k *kube, head string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the Secrets, without their values", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, namespace, err := k.secrets()
			if err != nil {
				return err
			}
			found, err := s.find(cmd.Context(), client, namespace, "")
			if err != nil {
				return err
			}
			rows := [][]string{{"NAME", "NAMESPACE", head, "KEYS"}}
			for _, one := range found {
				keys := make([]string, 0, len(one.Data))
				for key := range one.Data {
					keys = append(keys, key)
				}
				slices.Sort(keys)
				rows = append(rows, []string{one.Name, one.Namespace, one.Labels[s.label], strings.Join(keys, ",")})
			}
			return printTable(cmd.OutOrStdout(), rows, sprintf("no Secret in namespace %s has the label %s\n", namespace, s.label))
		},
	}
}

// delete makes the command that deletes the Secret of a host: one with the label alone, and the one that was read.
func (s secretKind) delete(k *kube, arg string, host func(string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: "delete " + arg, Short: "Delete the Secret of a server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := host(args[0])
			if _, plain := url.Parse("//" + args[0]); err != nil && plain == nil && !strings.Contains(args[0], "/") {
				of, err = args[0], nil // the value of the label, as list shows it
			}
			if err != nil {
				return err
			}
			client, namespace, err := k.secrets()
			if err != nil {
				return err
			}
			found, err := s.find(cmd.Context(), client, namespace, of)
			switch {
			case err != nil:
				return err
			case len(found) == 0:
				return fmt.Errorf("no Secret in namespace %s has the label %s=%s", namespace, s.label, of)
			case len(found) > 1:
				return fmt.Errorf("%d Secrets in namespace %s have the label %s=%s: delete one of them with kubectl", len(found), namespace, s.label, of)
			}
			one := found[0]
			err = client.Secrets(namespace).Delete(cmd.Context(), one.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &one.UID, ResourceVersion: &one.ResourceVersion}})
			if err != nil {
				return s.secretError("delete", namespace, err)
			}
			return printText(cmd.OutOrStdout(), sprintf("deleted Secret %s/%s with the %s of %s\n", namespace, one.Name, s.noun, of))
		},
	}
}
