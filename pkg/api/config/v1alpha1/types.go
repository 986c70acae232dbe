// Package v1alpha1 is the file that the flag --config of the operator names.
//
// Each flag of the operator has one field, whose name is the flag's in camelCase, except --config,
// --version and --help. The flag's description is the field's. A field that is unset has the
// flag's default.
package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// APIVersion is the apiVersion of an OperatorConfiguration.
	APIVersion = "config.infrahub.operators.com/v1alpha1"
	// Kind is the kind of an OperatorConfiguration.
	Kind = "OperatorConfiguration"
)

// OperatorConfiguration has the settings of one operator. It is a file, not an object of the
// API server.
type OperatorConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// AllowCrossNamespaceSources is --allow-cross-namespace-sources.
	AllowCrossNamespaceSources *bool `json:"allowCrossNamespaceSources,omitempty"`
	// AllowInsecureKubeconfigs is --allow-insecure-kubeconfigs.
	AllowInsecureKubeconfigs *bool `json:"allowInsecureKubeconfigs,omitempty"`
	// AllowKubeconfigProxies is --allow-kubeconfig-proxies.
	AllowKubeconfigProxies *bool `json:"allowKubeconfigProxies,omitempty"`
	// ArtifactHosts is --artifact-hosts, as a list.
	ArtifactHosts []string `json:"artifactHosts,omitempty"`
	// BackstopInterval is --backstop-interval.
	BackstopInterval *metav1.Duration `json:"backstopInterval,omitempty"`
	// CloudeventsHeadersFile is --cloudevents-headers-file.
	CloudeventsHeadersFile *string `json:"cloudeventsHeadersFile,omitempty"`
	// CloudeventsSink is --cloudevents-sink.
	CloudeventsSink *string `json:"cloudeventsSink,omitempty"`
	// DefaultInterval is --default-interval.
	DefaultInterval *metav1.Duration `json:"defaultInterval,omitempty"`
	// DriftAdditions is --drift-additions.
	DriftAdditions *string `json:"driftAdditions,omitempty"`
	// EventValues is --event-values.
	EventValues *string `json:"eventValues,omitempty"`
	// FirstOperatorConfig is --first-operator-config.
	FirstOperatorConfig *string `json:"firstOperatorConfig,omitempty"`
	// HealthProbeBindAddress is --health-probe-bind-address.
	HealthProbeBindAddress *string `json:"healthProbeBindAddress,omitempty"`
	// ImpersonationNamespaces is --impersonation-namespaces.
	ImpersonationNamespaces *string `json:"impersonationNamespaces,omitempty"`
	// Infrahub is --infrahub.
	Infrahub *bool `json:"infrahub,omitempty"`
	// InfrahubCredentialsNamespace is --infrahub-credentials-namespace.
	InfrahubCredentialsNamespace *string `json:"infrahubCredentialsNamespace,omitempty"`
	// InfrahubPublishBindAddress is --infrahub-publish-bind-address.
	InfrahubPublishBindAddress *string `json:"infrahubPublishBindAddress,omitempty"`
	// InfrahubPublishURL is --infrahub-publish-url.
	InfrahubPublishURL *string `json:"infrahubPublishUrl,omitempty"`
	// InfrahubWebhookBindAddress is --infrahub-webhook-bind-address.
	InfrahubWebhookBindAddress *string `json:"infrahubWebhookBindAddress,omitempty"`
	// InfrahubWebhookKeyFile is --infrahub-webhook-key-file.
	InfrahubWebhookKeyFile *string `json:"infrahubWebhookKeyFile,omitempty"`
	// Installation is --installation.
	Installation *string `json:"installation,omitempty"`
	// Kubeconfig is --kubeconfig.
	Kubeconfig *string `json:"kubeconfig,omitempty"`
	// KubeconfigNamespace is --kubeconfig-namespace.
	KubeconfigNamespace *string `json:"kubeconfigNamespace,omitempty"`
	// LeaderElect is --leader-elect.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// LeaderElectionNamespace is --leader-election-namespace.
	LeaderElectionNamespace *string `json:"leaderElectionNamespace,omitempty"`
	// MaxBreakGlass is --max-break-glass.
	MaxBreakGlass *metav1.Duration `json:"maxBreakGlass,omitempty"`
	// MetricsBindAddress is --metrics-bind-address.
	MetricsBindAddress *string `json:"metricsBindAddress,omitempty"`
	// MetricsSecure is --metrics-secure.
	MetricsSecure *bool `json:"metricsSecure,omitempty"`
	// Namespaces is --namespaces, as a list.
	Namespaces []string `json:"namespaces,omitempty"`
	// ObjectEvents is --object-events.
	ObjectEvents *bool `json:"objectEvents,omitempty"`
	// PeopleTools is --people-tools, as a list.
	PeopleTools []string `json:"peopleTools,omitempty"`
	// PprofBindAddress is --pprof-bind-address.
	PprofBindAddress *string `json:"pprofBindAddress,omitempty"`
	// RequireServiceAccount is --require-service-account.
	RequireServiceAccount *bool `json:"requireServiceAccount,omitempty"`
	// UserStamps is --user-stamps.
	UserStamps *bool `json:"userStamps,omitempty"`
	// WatchLabelSelector is --watch-label-selector.
	WatchLabelSelector *string `json:"watchLabelSelector,omitempty"`
	// Workers is --workers.
	Workers *int `json:"workers,omitempty"`
	// ZapDevel is --zap-devel.
	ZapDevel *bool `json:"zapDevel,omitempty"`
	// ZapEncoder is --zap-encoder.
	ZapEncoder *string `json:"zapEncoder,omitempty"`
	// ZapLogLevel is --zap-log-level.
	ZapLogLevel *string `json:"zapLogLevel,omitempty"`
	// ZapStacktraceLevel is --zap-stacktrace-level.
	ZapStacktraceLevel *string `json:"zapStacktraceLevel,omitempty"`
	// ZapTimeEncoding is --zap-time-encoding.
	ZapTimeEncoding *string `json:"zapTimeEncoding,omitempty"`
}
