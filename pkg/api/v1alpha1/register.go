package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this API.
var GroupVersion = schema.GroupVersion{Group: "infrahub.operators.com", Version: "v1alpha1"}

// Kind is the kind of VidraResources.
const Kind = "VidraResource"

// Resource is the resource of VidraResources, and SyncResource the resource of InfrahubSyncs.
var (
	Resource     = GroupVersion.WithResource("vidraresources")
	SyncResource = GroupVersion.WithResource("infrahubsyncs")
)

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package with a scheme. It is safe
// for concurrent use on different schemes.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &VidraResource{}, &VidraResourceList{}, &InfrahubSync{}, &InfrahubSyncList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
