package main

import (
	"strings"

	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// The users that the API server takes the sides for.
const (
	operatorUser = "system:serviceaccount:" + testenv.OperatorNamespace + ":" + testenv.OperatorServiceAccount
	floorUser    = "system:serviceaccount:" + floorNamespace + ":" + floorCommand
	fluxUser     = "system:serviceaccount:" + fluxNamespace + ":" + fluxCommand
)

// requests are those that one side sent.
type requests struct {
	// Patch, DryRun, Get and Delete are about the objects: PATCH that writes, PATCH that does not,
	// GET and DELETE.
	Patch  int `json:"patch"`
	DryRun int `json:"dryRun"`
	Get    int `json:"get"`
	Delete int `json:"delete"`
	// Status are the patches of the status of VidraResources.
	Status int `json:"status"`
	// Events are writes of Events.
	Events int `json:"events"`
	// Other are all the others, by verb and resource.
	Other map[string]int `json:"other"`
}

// countRequests counts the requests of a user.
func countRequests(audited []testenv.AuditEvent, user string) requests {
	r := requests{Other: map[string]int{}}
	for _, a := range audited {
		ours := a.Group == v1alpha1.GroupVersion.Group
		switch {
		case a.User != user:
		case a.Resource == "events":
			r.Events++
		case ours && a.Subresource == "status":
			r.Status++
		case !ours && a.Verb == "patch" && strings.Contains(a.RequestURI, "dryRun="):
			r.DryRun++
		case !ours && a.Verb == "patch":
			r.Patch++
		case !ours && a.Verb == "get" && a.Resource != "":
			r.Get++
		case !ours && a.Verb == "delete":
			r.Delete++
		default:
			r.Other[strings.TrimSpace(a.Verb+" "+a.Resource)]++
		}
	}
	return r
}

// add adds the requests of another time.
func (r *requests) add(o requests) {
	r.Patch += o.Patch
	r.DryRun += o.DryRun
	r.Get += o.Get
	r.Delete += o.Delete
	r.Status += o.Status
	r.Events += o.Events
	for what, n := range o.Other {
		r.Other[what] += n
	}
}

// total is how many there are. Watches count once, when they begin.
func (r *requests) total() int {
	n := r.Patch + r.DryRun + r.Get + r.Delete + r.Status + r.Events
	for _, other := range r.Other {
		n += other
	}
	return n
}
