package faultproxy

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Discovery is the verb of a request for a discovery document: /api, /apis,
// /api/<version>, /apis/<group> and /apis/<group>/<version>. To the API server
// it is a get of no resource.
const Discovery = "discovery"

// Request is what a client asked of the API server.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection
	// or Discovery; for a path that is none of the API's, such as /readyz, it is
	// the method in lower case.
	Verb string
	// Group, Version, Resource, Subresource, Namespace and Name that the request
	// is about; empty where its path names none. A Namespace is in a namespace
	// of its own name, as in authorization.
	Group, Version, Resource, Subresource, Namespace, Name string
	// Path and Query of the URL.
	Path  string
	Query url.Values
	// Time at which the proxy received it.
	Time time.Time
}

// newRequest reads a request as the API server does, except for the old
// prefixes /watch and /proxy.
func newRequest(r *http.Request) Request {
	q := Request{Verb: strings.ToLower(r.Method), Path: r.URL.Path, Query: r.URL.Query(), Time: time.Now()}
	segments := strings.Split(strings.Trim(q.Path, "/"), "/")
	switch segments[0] {
	case "api":
		segments = segments[1:]
	case "apis":
		q.Group, segments = shift(segments[1:])
	default:
		return q
	}
	q.Version, segments = shift(segments)
	if len(segments) == 0 {
		q.Verb = Discovery
		return q
	}
	q.setResource(segments)
	q.Verb = resourceVerb(r.Method, q.Name, q.Query)
	return q
}

// setResource reads what follows the version in a path.
func (q *Request) setResource(segments []string) {
	if segments[0] == "namespaces" && len(segments) > 1 {
		q.Namespace = segments[1]
		// Below a namespace are resources, and two subresources of its own.
		if len(segments) > 2 && segments[2] != "status" && segments[2] != "finalize" {
			segments = segments[2:]
		}
	}
	q.Resource, segments = shift(segments)
	q.Name, segments = shift(segments)
	q.Subresource, _ = shift(segments)
}

// resourceVerb returns the verb of a request for a resource.
func resourceVerb(method, name string, query url.Values) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodGet, http.MethodHead:
		if name != "" {
			return "get"
		}
		if watch, err := strconv.ParseBool(query.Get("watch")); err == nil && watch {
			return "watch"
		}
		return "list"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
	}
	return strings.ToLower(method)
}

// shift returns the first of the segments, empty where there is none, and the
// others.
func shift(segments []string) (first string, others []string) {
	if len(segments) == 0 {
		return "", nil
	}
	return segments[0], segments[1:]
}
