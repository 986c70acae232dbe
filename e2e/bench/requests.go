package main

import (
	"github.com/vidra-operator/vidra/e2e/testenv"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// operatorUser is whom the API server takes the operator for.
const operatorUser = "system:serviceaccount:" + testenv.OperatorNamespace + ":" + testenv.OperatorServiceAccount

// requests are those that the operator sent while edits were made.
type requests struct {
	// Patch and Get of managed objects.
	Patch int `json:"patch"`
	Get   int `json:"get"`
	// Status are the patches of the status of the VidraResource.
	Status int `json:"status"`
	// Events are writes of Events.
	Events int `json:"events"`
	// Other are all the others, by verb and resource.
	Other map[string]int `json:"other"`
}

// countRequests counts the requests of the operator.
func countRequests(audited []testenv.AuditEvent) requests {
	r := requests{Other: map[string]int{}}
	for _, a := range audited {
		ours := a.Group == v1alpha1.GroupVersion.Group
		switch {
		case a.User != operatorUser:
		case a.Resource == "events":
			r.Events++
		case ours && a.Subresource == "status":
			r.Status++
		case !ours && a.Verb == "patch":
			r.Patch++
		case !ours && a.Verb == "get" && a.Resource != "":
			r.Get++
		default:
			r.Other[a.Verb+" "+a.Resource]++
		}
	}
	return r
}
