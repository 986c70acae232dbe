// Package v1alpha1 is the infrahub.operators.com/v1alpha1 API: the
// VidraResource, which describes a set of Kubernetes objects and
// reports their state, and the InfrahubSync, which makes VidraResources of
// the artifacts of an Infrahub server.
//
// The group, the kinds and every field that the first Vidra operator of the
// Infrahub community defined keep their names and meaning, so a manifest
// written for it applies unchanged. New fields are optional and have defaults.
//
// Invariants: the package imports nothing else of this module but pkg/internal; its types hold
// no behaviour beyond defaults and lookups.
//
// +kubebuilder:object:generate=true
// +groupName=infrahub.operators.com
package v1alpha1
