package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes/infrahub"
)

// secrets returns a client, and the namespace of the Secrets.
func (k *kube) secrets() (*infrahub.Client, string, error) {
	if err := validateNamespace("namespace", *k.Namespace); err != nil {
		return nil, "", err
	}
	client, err := k.infrahub()
	return client, cmp.Or(*k.Namespace, operatorNamespace), err
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
	cmd.AddCommand(apply, newSecretList(k, infrahub.Credentials), newSecretDelete(k, infrahub.Credentials))
	return cmd
}

// credentialsFlags hold the flags of credentials apply.
type credentialsFlags struct {
	kube                          *kube
	username, password, token, ca string
}

func (f *credentialsFlags) apply(ctx context.Context, server string, in io.Reader, out io.Writer) error {
	host, err := infrahub.HostOf(server)
	if err != nil {
		return err
	}
	data := map[string][]byte{}
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
	client, namespace, err := f.kube.secrets()
	if err != nil {
		return err
	}
	made, err := client.ApplyCredentials(ctx, namespace, server, data)
	if err != nil {
		return err
	}
	return printText(out, render.Sprintf("applied Secret %s/%s with the credentials of %s\n", namespace, made.Name, host))
}

// readSecretFile reads a file with one value; - is the standard input.
func readSecretFile(path string, in io.Reader) (string, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(in, 64<<10))
	} else {
		text, err = os.ReadFile(path) //nolint:gosec // the file that the user names
	}
	value := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case value == "":
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

func newCluster(k *kube) *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: "List, write and delete Secrets with kubeconfigs of other clusters"}
	cmd.AddCommand(&cobra.Command{
		Use: "apply CONTEXT", Short: "Write the kubeconfig of one of your contexts", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := k.ToRawKubeConfigLoader().RawConfig()
			if err != nil {
				return fmt.Errorf("read the kubeconfig: %w", err)
			}
			client, namespace, err := k.secrets()
			if err != nil {
				return err
			}
			made, server, err := client.ApplyKubeconfig(cmd.Context(), namespace, args[0], raw)
			if err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), render.Sprintf("applied Secret %s/%s with the kubeconfig of %s\n", namespace, made.Name, server))
		},
	}, newSecretList(k, infrahub.Kubeconfigs), newSecretDelete(k, infrahub.Kubeconfigs))
	return cmd
}

// newSecretList makes the command that lists the Secrets of a kind, without their values.
func newSecretList(k *kube, kind infrahub.SecretKind) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the Secrets, without their values", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, namespace, err := k.secrets()
			if err != nil {
				return err
			}
			found, err := client.SecretsOf(cmd.Context(), kind, namespace, "")
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return printText(cmd.OutOrStdout(), render.Sprintf("no Secret in namespace %s has the label %s\n", namespace, kind.Label))
			}
			rows := [][]string{{"NAME", "NAMESPACE", "HOST", "KEYS"}}
			for _, one := range found {
				keys := slices.Sorted(maps.Keys(one.Data))
				rows = append(rows, []string{one.Name, one.Namespace, one.Labels[kind.Label], strings.Join(keys, ",")})
			}
			return printText(cmd.OutOrStdout(), render.Table(rows...))
		},
	}
}

// newSecretDelete makes the command that deletes the Secret of a server.
func newSecretDelete(k *kube, kind infrahub.SecretKind) *cobra.Command {
	return &cobra.Command{
		Use: "delete URL", Short: "Delete the Secret of a server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, namespace, err := k.secrets()
			if err != nil {
				return err
			}
			gone, err := client.DeleteSecret(cmd.Context(), kind, namespace, args[0])
			if err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), render.Sprintf("deleted Secret %s/%s with the %s of %s\n", namespace, gone.Name, kind.String(), gone.Labels[kind.Label]))
		},
	}
}
