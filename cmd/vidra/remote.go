package main

import (
	"github.com/spf13/cobra"

	"github.com/vidra-operator/vidra/pkg/dryrun"
)

// kubeconfigNamespaceFlag is the flag of the operator, too.
const kubeconfigNamespaceFlag = "kubeconfig-namespace"

// addKubeconfigNamespace adds the flag --kubeconfig-namespace.
func addKubeconfigNamespace(cmd *cobra.Command, namespace *string) {
	cmd.Flags().StringVar(namespace, kubeconfigNamespaceFlag, dryrun.DefaultKubeconfigNamespace,
		"the namespace of the Secrets with the kubeconfigs of other clusters, as of the flag of the operator; * for all")
}
