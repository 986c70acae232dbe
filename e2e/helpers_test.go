package e2e

import (
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/e2e/suite"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

var patience = suite.Patience

const (
	poll   = suite.Poll
	person = suite.Person
	// faultsInjected is why a test needs a control plane of its own.
	faultsInjected = "it injects faults between the operator and the API server"
)

// What package suite does, on the cluster of this package, under short names.
var (
	await  = suite.Await
	unique = suite.Unique

	needsOwnControlPlane = suite.NeedsOwnControlPlane

	newNamespace = cluster.NewNamespace
	get          = cluster.Get
	awaitGone    = cluster.AwaitGone
	awaitGoneFor = cluster.AwaitGoneFor
	mergePatch   = cluster.MergePatch
	jsonPatch    = cluster.JSONPatch
	edit         = cluster.Edit

	newVidraResource    = cluster.NewVidraResource
	configMap           = suite.Greeting
	manifests           = suite.Manifests
	named               = suite.Named
	orphaning           = suite.Orphaning
	setManifest         = cluster.SetManifest
	deleteVidraResource = cluster.DeleteVidraResource
	getVidraResource    = cluster.GetVidraResource
	awaitReady          = cluster.AwaitReady
	awaitNotReady       = cluster.AwaitNotReady
	awaitCondition      = cluster.AwaitCondition
	condition           = suite.Condition

	eventsAbout = cluster.EventsAbout
	awaitEvent  = cluster.AwaitEvent
	containsAll = suite.ContainsAll
	metric      = suite.Metric

	auditMark     = cluster.AuditMark
	operatorSince = cluster.ByOperator
	requireCount  = suite.RequireCount
	nameIs        = suite.NameIs
	verbIs        = suite.VerbIs
)

type (
	// request is a request to the API server, from its audit log.
	request = suite.Request
	// requests are several.
	requests = suite.Requests
)

// withoutEvents turns the watches of a VidraResource off.
func withoutEvents(v *v1alpha1.VidraResource) {
	off := false
	v.Spec.Destination.ReconcileOnEvents = &off
}

// every sets the resync interval of a VidraResource.
func every(interval time.Duration) func(*v1alpha1.VidraResource) {
	return func(v *v1alpha1.VidraResource) { v.Spec.Interval = &metav1.Duration{Duration: interval} }
}

// entry returns the entry that the inventory of a VidraResource must have.
func entry(t require.TestingT, v *v1alpha1.VidraResource, kind, name string) v1alpha1.ManagedResourceStatus {
	for _, e := range v.Status.ManagedResources {
		if e.Kind == kind && e.Name == name {
			return e
		}
	}
	require.Fail(t, "not in the inventory", "%s %s in %v", kind, name, v.Status.ManagedResources)
	return v1alpha1.ManagedResourceStatus{}
}
