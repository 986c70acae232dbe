package main

import (
	"flag"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/vidra-operator/vidra/cmd/internal/configfile"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/cluster"
	"github.com/vidra-operator/vidra/pkg/ownership"
	"github.com/vidra-operator/vidra/pkg/reconcile/backstop"
	"github.com/vidra-operator/vidra/pkg/source/flux"
)

// artifactHostsFlag is the flag that limits the hosts of artifacts.
const artifactHostsFlag = "artifact-hosts"

// options are the flags of the operator.
type options struct {
	version        bool
	config         string
	origins        configfile.Origins
	pprofAddress   string
	firstConfig    string
	metricsAddress string
	metricsSecure  bool
	probeAddress   string
	leaderElect    bool
	leaseNamespace string
	workers        int

	installation          v1alpha1.Installation
	shard                 v1alpha1.Shard
	scope                 cluster.Scope
	kubeconfigNamespace   string
	allowInsecure         bool
	allowProxies          bool
	requireServiceAccount bool
	impersonation         labels.Selector
	defaultInterval       time.Duration
	backstopInterval      time.Duration
	maxBreakGlass         time.Duration
	sink                  string
	sinkHeaders           string
	objectEvents          bool
	additions             string
	peopleTools           string
	eventValues           string
	userStamps            bool
	crossNamespaceSources bool
	artifactHosts         string

	infrahub            bool
	infrahubCredentials string
	webhookAddress      string
	webhookKeyFile      string
	publishAddress      string
	publishURL          string
}

// bind makes the options flags.
func (o *options) bind(fs *flag.FlagSet) {
	fs.BoolVar(&o.version, "version", false, "Print the version and exit.")
	fs.StringVar(&o.config, "config", "", "A file with an OperatorConfiguration, whose fields are the other flags. A flag takes precedence over its field. The operator reads the file when it starts.")
	fs.StringVar(&o.firstConfig, firstConfigFlag, "",
		"The ConfigMap vidra-config of the first Vidra operator, as `NAMESPACE/NAME`. The operator reads it when it starts and logs what each of its keys means here. Flags and the file of --config take precedence.")
	fs.StringVar(&o.pprofAddress, pprofFlag, "",
		"The address of the profiles of net/http/pprof, which have no authentication. An address without a host, such as :6060, means 127.0.0.1. Empty disables them.")
	fs.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "The address of the metrics endpoint, which also serves /watches; 0 disables it.")
	fs.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, to clients that the API server authenticates and that may get /metrics or /watches. When false: over HTTP, to every client.")
	fs.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "The address of /healthz and /readyz; 0 disables them.")
	fs.BoolVar(&o.leaderElect, "leader-elect", false, "Reconcile only while holding a Lease, so that several replicas can run.")
	fs.StringVar(&o.leaseNamespace, "leader-election-namespace", "", "The namespace of that Lease. Defaults to the namespace of the operator; required outside of a cluster.")
	fs.Func("installation", "The `name` of this installation of Vidra, a DNS label. It reconciles the VidraResources with the label "+
		v1alpha1.InstallationLabel+"=NAME; without the flag, those without the label. Needed where several installations write to one cluster.",
		func(name string) (err error) {
			o.installation, err = v1alpha1.ParseInstallation(name)
			return err
		})
	fs.Func(shardFlag, "The label `selector` of the VidraResources that are reconciled, such as sharding.fluxcd.io/key=shard1: a shard. "+
		"Operators with different selectors share the VidraResources of one installation. Each of them watches only the objects of its own ones, by a label that it gives them, and has its own Lease. Defaults to all VidraResources.",
		func(selector string) (err error) {
			o.shard, err = v1alpha1.ParseShard(selector)
			return err
		})
	fs.Func(cluster.NamespacesFlag, "The `names` of the namespaces in which objects are managed and manifests are read, separated by commas. "+
		"The operator then needs rights on objects there only; objects of other namespaces, and those without one, are OutOfScope. Defaults to all. "+
		"Other clusters are limited by their kubeconfigs instead.",
		func(names string) (err error) {
			o.scope, err = cluster.LocalScope(strings.Split(names, ",")...)
			return err
		})
	fs.IntVar(&o.workers, "workers", 8, "How many VidraResources are reconciled at a time. Some of these workers never reconcile VidraResources of other clusters.")
	fs.StringVar(&o.kubeconfigNamespace, "kubeconfig-namespace", "",
		"The namespace of the Secrets with the label cluster-kubeconfig, which hold the kubeconfigs of other clusters; * means all namespaces. "+
			"Defaults to the namespace of the operator. Outside of a Pod there is no default: without this flag, other clusters are not reachable.")
	fs.BoolVar(&o.allowInsecure, cluster.AllowInsecureFlag, false,
		"Accept kubeconfigs of other clusters with insecure-skip-tls-verify, or with a server whose URL begins with http://.")
	fs.BoolVar(&o.allowProxies, cluster.AllowProxiesFlag, false,
		"Accept kubeconfigs of other clusters with a proxy-url.")
	fs.BoolVar(&o.requireServiceAccount, "require-service-account", false,
		"Refuse VidraResources without spec.serviceAccountName, and those that name an account of kube-system or of the operator's namespace, so that no object is written with the rights of the operator.")
	fs.Func("impersonation-namespaces", "The label `selector` of the namespaces whose ServiceAccounts VidraResources may name. Defaults to all namespaces.",
		func(selector string) (err error) {
			o.impersonation, err = labels.Parse(selector)
			return err
		})
	fs.DurationVar(&o.defaultInterval, intervalFlag, v1alpha1.DefaultInterval,
		"How often all objects of a VidraResource are compared with its manifest, in addition to the events of the watches, where spec.interval is not set. At least 10s.")
	fs.DurationVar(&o.backstopInterval, "backstop-interval", backstop.DefaultInterval,
		"How often the objects of every watch are listed, in pages, and compared with what is expected, in case an event was lost. "+
			"Those that differ are compared by a dry run. 0 disables it.")
	fs.DurationVar(&o.maxBreakGlass, "max-break-glass", v1alpha1.DefaultMaxBreakGlass,
		"For how long break-glass annotations exempt an object at most, where spec.drift.maxBreakGlass is not set. 0 accepts no break-glass.")
	fs.BoolVar(&o.objectEvents, "object-events", true,
		"Also write Events about managed objects, not only about VidraResources: "+
			"ChangeReverted, DriftDetected, BreakGlassAccepted, BreakGlassIgnored and BreakGlassEnded.")
	fs.BoolVar(&o.userStamps, "user-stamps", false,
		"Name the user of an edit in Events, statuses and CloudEvents, as the annotation "+ownership.EditedByAnnotation+" of the object says. "+
			"Only where config/policies/stamp is installed: without it, any user who may edit the object can write another name into the annotation. For the local cluster.")
	fs.StringVar(&o.eventValues, "event-values", eventValuesAll,
		"Which values of fields are shown in Events, statuses, CloudEvents and the log: all, except those of Secrets, of annotated objects and of environment variables; or none.")
	fs.StringVar(&o.additions, "drift-additions", string(v1alpha1.AdditionsKeep),
		"What Vidra does about fields that users add to objects, where spec.drift.additions is not set: Keep, Warn or Revert.")
	fs.StringVar(&o.peopleTools, "people-tools", strings.Join(ownership.DefaultTools, ","),
		"The field managers of tools with which users, not controllers, edit objects, with * for any text, separated by commas. Only what these add is an addition.")
	fs.StringVar(&o.sinkHeaders, sinkHeadersFlag, "",
		"A file with headers of each CloudEvent, such as \"Authorization: Bearer ...\", one a line. The operator reads it for each CloudEvent, so that a mounted Secret may be rotated. None if empty.")
	fs.BoolVar(&o.infrahub, "infrahub", true,
		"Make VidraResources of the artifacts of Infrahub servers, as InfrahubSyncs specify. Without their CustomResourceDefinition, the operator waits for it.")
	fs.StringVar(&o.infrahubCredentials, "infrahub-credentials-namespace", "",
		"The namespace of the Secrets with the label infrahub-api-url, which hold the credentials of Infrahub servers; * means all namespaces. "+
			"Defaults to all namespaces, and to that of the operator with --require-service-account or --namespaces.")
	fs.StringVar(&o.webhookAddress, webhookFlag, "",
		"The address on which webhooks of Infrahub are accepted, such as :8082, over HTTP, at the path /infrahub. Empty accepts none.")
	fs.StringVar(&o.webhookKeyFile, webhookKeyFlag, "",
		"A file with the shared keys of these webhooks, one a line. The operator reads it for each webhook, so that a mounted Secret may be rotated.")
	fs.StringVar(&o.publishAddress, publishFlag, "",
		"The address on which the artifacts of InfrahubSyncs with spec.publish are served, such as :8083, over HTTP, to every client. Empty serves none.")
	fs.StringVar(&o.publishURL, publishURLFlag, "",
		"The `URL` of that address for clients in the cluster, such as http://vidra-infrahub-publish.vidra-system.svc.cluster.local.")
	fs.BoolVar(&o.crossNamespaceSources, "allow-cross-namespace-sources", false,
		"Accept sources of Flux in spec.manifestFrom that are in another namespace than that of the destination.")
	fs.StringVar(&o.artifactHosts, artifactHostsFlag, flux.ServiceHosts.String(),
		"The `hosts` from which artifacts of Flux are fetched, separated by commas: names or addresses, with or without a port, in which * stands for any text without a dot. Defaults to the Services of the cluster.")
	fs.StringVar(&o.sink, sinkFlag, "", "The http or https URL to which the operator also sends its Events, as CloudEvents; none if empty.")
}
