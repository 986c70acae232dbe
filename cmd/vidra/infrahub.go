package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight/render"
	"github.com/vidra-operator/vidra/pkg/writes/infrahub"
)

// operatorNamespace is the namespace of the Secrets that the commands write without --namespace.
const operatorNamespace = "vidra-system"

const infrahubHelp = `Have artifacts of an Infrahub server become VidraResources: write InfrahubSyncs, and the
Secrets with the credentials of Infrahub servers and with the kubeconfigs of other clusters.

Secrets are in the namespace vidra-system unless --namespace names another one. No command
prints a password, a token or a kubeconfig.`

const infrahubExample = `  vidra infrahub credentials apply https://infrahub.example.com --username admin --password-file -
  vidra infrahub sync apply https://infrahub.example.com --artifact Webserver_Manifest --destination-namespace shop
  vidra infrahub sync list
  vidra infrahub sync request webservers           # query the server now
  vidra infrahub sync confirm webservers           # delete what waits for a confirmation
  vidra infrahub cluster apply edge                # the kubeconfig of a context, for another destination`

func newInfrahub(k *kube) *cobra.Command {
	cmd := &cobra.Command{Use: "infrahub", Short: "Write InfrahubSyncs, credentials and kubeconfigs", Long: infrahubHelp, Example: infrahubExample}
	cmd.AddCommand(newInfrahubSync(k), newCredentials(k), newCluster(k))
	return cmd
}

func newInfrahubSync(k *kube) *cobra.Command {
	cmd := &cobra.Command{Use: "sync", Short: "List, write and delete InfrahubSyncs"}
	cmd.AddCommand(newSyncList(k), newSyncGet(k), newSyncApply(k),
		newSyncWrite(k, "request", "Request a query of the Infrahub server now", requestSync),
		newSyncWrite(k, "confirm", "Confirm the removals that wait", confirmRemovals),
		newSyncWrite(k, "delete", "Delete InfrahubSyncs, with their VidraResources and objects", deleteSync))
	return cmd
}

func newSyncList(k *kube) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List InfrahubSyncs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := k.infrahub()
			if err != nil {
				return err
			}
			all, err := client.Syncs(cmd.Context())
			if err != nil {
				return err
			}
			if len(all) == 0 {
				return printText(cmd.OutOrStdout(), "no InfrahubSyncs\n")
			}
			return printText(cmd.OutOrStdout(), styleOf(cmd.OutOrStdout(), "").InfrahubSyncs(all))
		},
	}
}

func newSyncGet(k *kube) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show an InfrahubSync: its state, artifacts with problems, and removals that wait", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := k.infrahub()
			if err != nil {
				return err
			}
			is, err := client.Sync(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			is.ManagedFields = nil
			return printAnswer(cmd.OutOrStdout(), output, is, styleOf(cmd.OutOrStdout(), "").InfrahubSync(is))
		},
	}
	addOutput(cmd, &output, outputJSON, outputYAML)
	return cmd
}

func newSyncApply(k *kube) *cobra.Command {
	var spec infrahub.SyncSpec // the short forms of its flags are those of vidra-cli, which the first operator has
	cmd := &cobra.Command{
		Use: "apply URL", Short: "Create or change an InfrahubSync of an Infrahub server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := k.infrahub()
			if err != nil {
				return err
			}
			spec.URL = args[0]
			name, err := client.Apply(cmd.Context(), spec)
			if err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), render.Sprintf("applied InfrahubSync %s: `%s` shows its state\n", name, program.Hint("infrahub", "sync", "get", name)))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&spec.Name, "name", "E", "", "the name of the InfrahubSync; default: the name of the artifacts as a DNS label")
	flags.StringVarP(&spec.Artifact, "artifact", "a", "", "the name of the artifacts")
	flags.StringVarP(&spec.Branch, "branch", "b", "main", "the branch in Infrahub")
	flags.StringVarP(&spec.Date, "date", "d", "", "the time at which the artifacts are read: RFC 3339, or such as now-2h")
	flags.StringVar(&spec.Server, "destination-server", "", "the URL of the API server of the objects; default: the cluster of the operator")
	flags.StringVarP(&spec.Namespace, "destination-namespace", "N", "", "the namespace of the objects that name none")
	flags.StringVar(&spec.Account, "service-account", "", "the ServiceAccount in that namespace that reads and writes the objects")
	flags.BoolVarP(&spec.ReconcileOnEvents, "reconcile-on-events", "e", false, "watch the objects, and revert edits at once")
	_ = cmd.MarkFlagRequired("artifact") // the flag exists
	return cmd
}

// newSyncWrite makes a command that writes named InfrahubSyncs. write returns a message to the user.
func newSyncWrite(k *kube, verb, short string, write func(ctx context.Context, client *infrahub.Client, is *v1alpha1.InfrahubSync) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := k.infrahub()
			if err != nil {
				return err
			}
			for _, name := range names {
				is, err := client.Sync(cmd.Context(), name)
				if err != nil {
					return err
				}
				done, err := write(cmd.Context(), client, is)
				if err != nil {
					return err
				}
				if err := printText(cmd.OutOrStdout(), render.Sprintf("%s\n", done)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func requestSync(ctx context.Context, client *infrahub.Client, is *v1alpha1.InfrahubSync) (string, error) {
	return "requested a query for InfrahubSync " + is.Name, client.Request(ctx, is)
}

func confirmRemovals(ctx context.Context, client *infrahub.Client, is *v1alpha1.InfrahubSync) (string, error) {
	p := is.Status.PendingRemovals
	if p == nil {
		return "no removal of InfrahubSync " + is.Name + " waits", nil
	}
	return fmt.Sprintf("confirmed the deletion of %s of InfrahubSync %s: %s", render.Plural(int(p.Count), "VidraResource"), is.Name, strings.Join(p.Names, ", ")),
		client.Confirm(ctx, is)
}

func deleteSync(ctx context.Context, client *infrahub.Client, is *v1alpha1.InfrahubSync) (string, error) {
	return "deleted InfrahubSync " + is.Name + ": its VidraResources and their objects go with it", client.Delete(ctx, is)
}

// infrahub returns a client for InfrahubSyncs and Secrets.
func (k *kube) infrahub() (*infrahub.Client, error) {
	config, err := k.config()
	if err != nil {
		return nil, err
	}
	return infrahub.New(config, program)
}
