package access

// The needs of Vidra itself. `make generate` makes config/rbac/role.yaml of it. The kinds that may be managed are a role of
// their own, which a team can narrow: config/rbac/managed_kinds.yaml.

// Its own resource. Status is written as a subresource, and finalizers are
// which OwnerReferencesPermissionEnforcement checks.
// +kubebuilder:rbac:groups=infrahub.operators.com,resources=vidraresources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrahub.operators.com,resources=vidraresources/status,verbs=patch
// +kubebuilder:rbac:groups=infrahub.operators.com,resources=vidraresources/finalizers,verbs=update

// Events go to events.k8s.io; leader election writes Events of the core group in the namespace of the operator.
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:namespace=vidra-system,groups="",resources=events,verbs=create;patch

// Which kinds are served: a kind that appears is watched at once.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,verbs=get;list;watch

// Which namespaces are being deleted, where nothing is reverted.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch

// Who may read the metrics: the metrics endpoint asks the API server. Whether an account that Vidra may not impersonate has a right, too.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// The key of digests of sensitive objects, and the last manifests that came from artifacts, in Secrets of the namespace of the operator.
// +kubebuilder:rbac:namespace=vidra-system,groups="",resources=secrets,verbs=get;list;create;delete

// The sources of Flux that spec.manifestFrom names.
// +kubebuilder:rbac:groups=source.toolkit.fluxcd.io,resources=gitrepositories;ocirepositories;buckets;externalartifacts,verbs=get;list;watch

// Leader election, in the namespace of the operator only. The Leases of the other namespaces
// show whether an operator of the same installation runs there.
// +kubebuilder:rbac:namespace=vidra-system,groups=coordination.k8s.io,resources=leases,verbs=get;watch;create;update;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=list
