package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// infrahubSyncs is the resource of InfrahubSyncs.
var infrahubSyncs = v1alpha1.GroupVersion.WithResource("infrahubsyncs")

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
			client, err := k.dynamic()
			if err != nil {
				return err
			}
			list, err := client.Resource(infrahubSyncs).List(cmd.Context(), metav1.ListOptions{})
			if err != nil {
				return infrahubError("list", "", err)
			}
			rows := [][]string{{"NAME", "READY", "STATUS", "ARTIFACT", "BRANCH", "APPLIED", "URL"}}
			for i := range list.Items {
				is, err := asInfrahubSync(&list.Items[i])
				if err != nil {
					return err
				}
				ready := readyOf(is)
				rows = append(rows, []string{
					is.Name, string(ready.Status), ready.Reason, is.Spec.Source.ArtifactName, is.Spec.Source.TargetBranch,
					fmt.Sprintf("%d/%d", is.Status.Applied, is.Status.Artifacts), is.Spec.Source.InfrahubAPIURL,
				})
			}
			return printTable(cmd.OutOrStdout(), rows, "no InfrahubSyncs\n")
		},
	}
}

func newSyncGet(k *kube) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show an InfrahubSync: its state, artifacts with problems, and removals that wait", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := k.dynamic()
			if err != nil {
				return err
			}
			is, err := getInfrahubSync(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			if output != "" {
				is.ManagedFields = nil
				return printDocument(cmd.OutOrStdout(), output, is)
			}
			return printText(cmd.OutOrStdout(), syncText(is))
		},
	}
	addOutput(cmd, &output, outputJSON, outputYAML)
	return cmd
}

// syncText describes an InfrahubSync.
func syncText(is *v1alpha1.InfrahubSync) string {
	ready := readyOf(is)
	var b strings.Builder
	b.WriteString(sprintf("InfrahubSync %s: %s\n", is.Name, ready.Reason))
	if ready.Message != "" {
		b.WriteString(sprintf("  %s\n", ready.Message))
	}
	b.WriteString(sprintf("  artifacts %s on branch %s at %s: %s of %s applied\n", is.Spec.Source.ArtifactName, is.Spec.Source.TargetBranch, is.Spec.Source.InfrahubAPIURL,
		strconv.Itoa(int(is.Status.Applied)), strconv.Itoa(int(is.Status.Artifacts))))
	for _, p := range is.Status.Problems {
		b.WriteString(sprintf("  %s: %s\n", p.Reason, p.Message))
	}
	if n := is.Status.UnlistedProblems; n > 0 {
		b.WriteString(sprintf("  and %s\n", plural(int(n), "further problem")))
	}
	if p := is.Status.PendingRemovals; p != nil {
		b.WriteString(sprintf("  %s would be deleted: %s\n  confirm: %s\n", plural(int(p.Count), "VidraResource"), strings.Join(p.Names, ", "), hint("infrahub", "sync", "confirm", is.Name)))
	}
	return b.String()
}

// readyOf returns the condition Ready; one that is Unknown if there is none.
func readyOf(is *v1alpha1.InfrahubSync) metav1.Condition {
	for _, c := range is.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c
		}
	}
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Pending", Message: "no operator has synced it yet"}
}

// syncFlags hold the flags of sync apply. Their short forms are those of vidra-cli, which the first operator has.
type syncFlags struct {
	*kube
	name, artifact, branch, date, server, namespace, account string
	events                                                   bool
}

func newSyncApply(k *kube) *cobra.Command {
	f := &syncFlags{kube: k}
	cmd := &cobra.Command{
		Use: "apply URL", Short: "Create or change an InfrahubSync of an Infrahub server", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args[0], cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.name, "name", "E", "", "the name of the InfrahubSync; default: the name of the artifacts as a DNS label")
	flags.StringVarP(&f.artifact, "artifact", "a", "", "the name of the artifacts")
	flags.StringVarP(&f.branch, "branch", "b", "main", "the branch in Infrahub")
	flags.StringVarP(&f.date, "date", "d", "", "the time at which the artifacts are read: RFC 3339, or such as now-2h")
	flags.StringVar(&f.server, "destination-server", "", "the URL of the API server of the objects; default: the cluster of the operator")
	flags.StringVarP(&f.namespace, "destination-namespace", "N", "", "the namespace of the objects that name none")
	flags.StringVar(&f.account, "service-account", "", "the ServiceAccount in that namespace that reads and writes the objects")
	flags.BoolVarP(&f.events, "reconcile-on-events", "e", false, "watch the objects, and revert edits at once")
	_ = cmd.MarkFlagRequired("artifact") // the flag exists
	return cmd
}

func (f *syncFlags) run(ctx context.Context, server string, out io.Writer) error {
	if _, err := hostOf(server); err != nil {
		return err
	}
	name := f.name
	if name == "" {
		name = strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(f.artifact)), "-")
	}
	destination := map[string]any{"reconcileOnEvents": f.events}
	source := map[string]any{"infrahubAPIURL": server, "targetBranch": f.branch, "artefactName": f.artifact}
	spec := map[string]any{"source": source, "destination": destination}
	for _, one := range []struct {
		in         map[string]any
		key, value string
	}{{source, "targetDate", f.date}, {destination, "server", f.server}, {destination, "namespace", f.namespace}, {spec, "serviceAccountName", f.account}} {
		if one.value != "" {
			one.in[one.key] = one.value
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.SyncKind))
	u.SetName(name)
	client, err := f.dynamic()
	if err != nil {
		return err
	}
	if _, err := client.Resource(infrahubSyncs).Apply(ctx, name, u, metav1.ApplyOptions{FieldManager: writes.FieldManager, Force: true}); err != nil {
		return infrahubError("apply", name, err)
	}
	return printText(out, sprintf("applied InfrahubSync %s: `%s` shows its state\n", name, hint("infrahub", "sync", "get", name)))
}

// newSyncWrite makes a command that writes named InfrahubSyncs.
func newSyncWrite(k *kube, verb, short string, write func(ctx context.Context, client dynamic.Interface, is *v1alpha1.InfrahubSync) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := k.dynamic()
			if err != nil {
				return err
			}
			for _, name := range names {
				is, err := getInfrahubSync(cmd.Context(), client, name)
				if err != nil {
					return err
				}
				done, err := write(cmd.Context(), client, is)
				if err != nil {
					return infrahubError(verb, name, err)
				}
				if err := printText(cmd.OutOrStdout(), sprintf("%s\n", done)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func requestSync(ctx context.Context, client dynamic.Interface, is *v1alpha1.InfrahubSync) (string, error) {
	err := annotateSync(ctx, client, is.Name, v1alpha1.SyncRequestedAtAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	return "requested a query for InfrahubSync " + is.Name, err
}

func confirmRemovals(ctx context.Context, client dynamic.Interface, is *v1alpha1.InfrahubSync) (string, error) {
	p := is.Status.PendingRemovals
	if p == nil {
		return "no removal of InfrahubSync " + is.Name + " waits", nil
	}
	err := annotateSync(ctx, client, is.Name, v1alpha1.ConfirmRemovalAnnotation, p.Confirmation)
	return fmt.Sprintf("confirmed the deletion of %s of InfrahubSync %s: %s", plural(int(p.Count), "VidraResource"), is.Name, strings.Join(p.Names, ", ")), err
}

func deleteSync(ctx context.Context, client dynamic.Interface, is *v1alpha1.InfrahubSync) (string, error) {
	err := client.Resource(infrahubSyncs).Delete(ctx, is.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &is.UID}})
	return "deleted InfrahubSync " + is.Name + ": its VidraResources and their objects go with it", err
}

// annotateSync sets an annotation of an InfrahubSync.
func annotateSync(ctx context.Context, client dynamic.Interface, name, key, value string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	_, err := client.Resource(infrahubSyncs).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: writes.FieldManager})
	return err
}

// getInfrahubSync reads an InfrahubSync.
func getInfrahubSync(ctx context.Context, client dynamic.Interface, name string) (*v1alpha1.InfrahubSync, error) {
	u, err := client.Resource(infrahubSyncs).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, infrahubError("get", name, err)
	}
	return asInfrahubSync(u)
}

// asInfrahubSync converts what the API server returned.
func asInfrahubSync(u *unstructured.Unstructured) (*v1alpha1.InfrahubSync, error) {
	is := &v1alpha1.InfrahubSync{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, is); err != nil {
		return nil, fmt.Errorf("read InfrahubSync %s: %w", u.GetName(), err)
	}
	return is, nil
}

// infrahubError adds to an error about InfrahubSyncs what the user can do.
func infrahubError(verb, name string, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("you may not %s InfrahubSyncs, which have no namespace: ask for a ClusterRoleBinding to vidra-infrahubsync-editor: %w", verb, err)
	case apierrors.IsNotFound(err) && name != "" && !isNoResource(err):
		return fmt.Errorf("InfrahubSync %s does not exist; `%s` lists those that do", name, hint("infrahub", "sync", "list"))
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the cluster serves no InfrahubSyncs: install their CustomResourceDefinition, or name another cluster with --context: %w", err)
	}
	return err
}

// hostOf returns the host of a URL, which is the value of the labels of Secrets.
func hostOf(server string) (string, error) {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Hostname() == "" || parsed.User != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) {
		return "", fmt.Errorf("%q is no URL: it must have http or https and a host, such as https://infrahub.example.com", server)
	}
	return parsed.Hostname(), nil
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

// printTable prints rows as kubectl does, or a text if there is only the head.
func printTable(out io.Writer, rows [][]string, empty string) error {
	if len(rows) == 1 {
		return printText(out, empty)
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 3, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = oneLine(row[i])
		}
		if _, err := io.WriteString(w, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printText(out, b.String())
}
