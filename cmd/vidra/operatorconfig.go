package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/vidra-operator/vidra/cmd/internal/configfile"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/writes"
)

// operatorFlags name the settings of the operator that decide about edits.
type operatorFlags struct {
	// kubeconfigs is the namespace of the Secrets with the kubeconfigs of other clusters, and config the file with the configuration
	// of the operator.
	kubeconfigs, config string
	// flags are the flags of the command; nil without --kubeconfig-namespace.
	flags *pflag.FlagSet
}

// add adds the flags.
func (o *operatorFlags) add(cmd *cobra.Command) {
	addKubeconfigNamespace(cmd, &o.kubeconfigs)
	o.flags = cmd.Flags()
	o.addConfig(cmd)
}

// addConfig adds the flag of the configuration alone, for commands that read the manifest but reach no other cluster.
func (o *operatorFlags) addConfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.config, "operator-config", "", "a file with the OperatorConfiguration of the operator, whose settings decide what is applied and which edits are reverted; defaults to those of an operator without one")
}

// client returns a client with the settings.
func (o *operatorFlags) client(k *kube) (*insight.Client, error) {
	config, options, err := o.connection(k)
	if err != nil {
		return nil, err
	}
	return insight.New(config, options)
}

// writes returns a client for writes with the settings.
func (o *operatorFlags) writes(k *kube) (*writes.Client, error) {
	config, options, err := o.connection(k)
	if err != nil {
		return nil, err
	}
	return writes.New(config, options)
}

// connection returns the connection to the cluster and the settings for a client.
func (o *operatorFlags) connection(k *kube) (*rest.Config, insight.Options, error) {
	config, err := k.config()
	if err != nil {
		return nil, insight.Options{}, err
	}
	options, err := o.options()
	return config, options, err
}

// options returns the settings for a client.
func (o *operatorFlags) options() (insight.Options, error) {
	options := insight.Options{Program: program, KubeconfigNamespace: o.kubeconfigs}
	if o.config == "" {
		return options, nil
	}
	operator, namespace, err := operatorOf(o.config)
	if namespace != "" && o.flags != nil && !o.flags.Changed(kubeconfigNamespaceFlag) {
		options.KubeconfigNamespace = namespace
	}
	options.Operator = operator
	return options, err
}

// operatorOf returns the settings in a file with an OperatorConfiguration, and the namespace of the Secrets with kubeconfigs, empty if unset.
func operatorOf(path string) (operator insight.Operator, kubeconfigs string, err error) {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	for _, field := range configfile.Fields() {
		flags.String(field.Flag, "", "")
	}
	if err := configfile.Load(path, flags, configfile.Origins{}); err != nil {
		return operator, "", fmt.Errorf("--operator-config: %w", err)
	}
	value := func(name string) string { return flags.Lookup(name).Value.String() }
	list := func(name string) (all []string) {
		for item := range strings.SplitSeq(value(name), ",") {
			if item = strings.TrimSpace(item); item != "" {
				all = append(all, item)
			}
		}
		return all
	}
	operator.Additions = v1alpha1.AdditionsPolicy(value("drift-additions"))
	operator.Namespaces = list("namespaces")
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "people-tools" { // an empty list names no tool
			operator.Tools = append(ownership.Tools{}, list(f.Name)...)
		}
	})
	operator.ArtifactHosts = list("artifact-hosts")
	operator.CrossNamespaceSources = value("allow-cross-namespace-sources") == "true"
	operator.RequireServiceAccount = value("require-service-account") == "true"
	operator.AllowInsecureKubeconfigs = value(cluster.AllowInsecureFlag) == "true"
	operator.AllowKubeconfigProxies = value(cluster.AllowProxiesFlag) == "true"
	operator.ImpersonationNamespaces = value("impersonation-namespaces")
	if text := value("max-break-glass"); text != "" {
		longest, err := time.ParseDuration(text)
		if err != nil {
			return operator, "", fmt.Errorf("--operator-config %s: maxBreakGlass %q: %w", path, text, err)
		}
		operator.MaxBreakGlass = &longest
	}
	return operator, value(kubeconfigNamespaceFlag), nil
}
