package faultproxy

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestNewRequest(t *testing.T) {
	tests := map[string]struct {
		reason, method, url string
		want                Request
	}{
		"all groups": {
			reason: "the document of all groups is discovery of no group",
			method: "GET", url: "/apis", want: Request{Verb: Discovery},
		},
		"legacy versions": {
			reason: "so is that of the core group's versions, with a slash at its end or without",
			method: "GET", url: "/api/", want: Request{Verb: Discovery},
		},
		"core version": {
			reason: "the core group has its documents elsewhere",
			method: "GET", url: "/api/v1", want: Request{Verb: Discovery, Version: "v1"},
		},
		"group": {
			reason: "a group has a document",
			method: "GET", url: "/apis/apps", want: Request{Verb: Discovery, Group: "apps"},
		},
		"group version": {
			reason: "a version of a group has a document",
			method: "GET", url: "/apis/apps/v1", want: Request{Verb: Discovery, Group: "apps", Version: "v1"},
		},
		"readyz": {
			reason: "what is no API has its method as verb",
			method: "GET", url: "/readyz/etcd", want: Request{Verb: "get"},
		},
		"list in all namespaces": {
			reason: "a get without a name is a list",
			method: "GET", url: "/api/v1/configmaps?limit=500",
			want: Request{Verb: "list", Version: "v1", Resource: "configmaps"},
		},
		"list that does not watch": {
			reason: "watch=false is a list",
			method: "GET", url: "/api/v1/configmaps?watch=false",
			want: Request{Verb: "list", Version: "v1", Resource: "configmaps"},
		},
		"watch": {
			reason: "a list with watch=true is a watch",
			method: "GET", url: "/apis/apps/v1/namespaces/n/deployments?watch=true",
			want: Request{Verb: "watch", Group: "apps", Version: "v1", Namespace: "n", Resource: "deployments"},
		},
		"get": {
			reason: "a name makes it a get",
			method: "GET", url: "/api/v1/namespaces/n/configmaps/c",
			want: Request{Verb: "get", Version: "v1", Namespace: "n", Resource: "configmaps", Name: "c"},
		},
		"subresource": {
			reason: "what follows the name is a subresource",
			method: "PATCH", url: "/apis/apps/v1/namespaces/n/deployments/d/scale",
			want: Request{Verb: "patch", Group: "apps", Version: "v1", Namespace: "n", Resource: "deployments", Name: "d", Subresource: "scale"},
		},
		"namespaces": {
			reason: "the list of namespaces is in none",
			method: "GET", url: "/api/v1/namespaces",
			want: Request{Verb: "list", Version: "v1", Resource: "namespaces"},
		},
		"a namespace": {
			reason: "a namespace is in itself",
			method: "DELETE", url: "/api/v1/namespaces/n",
			want: Request{Verb: "delete", Version: "v1", Namespace: "n", Resource: "namespaces", Name: "n"},
		},
		"finalize": {
			reason: "it is a subresource of the namespace, not a resource in it",
			method: "PUT", url: "/api/v1/namespaces/n/finalize",
			want: Request{Verb: "update", Version: "v1", Namespace: "n", Resource: "namespaces", Name: "n", Subresource: "finalize"},
		},
		"create": {
			reason: "a post creates",
			method: "POST", url: "/api/v1/namespaces/n/configmaps",
			want: Request{Verb: "create", Version: "v1", Namespace: "n", Resource: "configmaps"},
		},
		"deletecollection": {
			reason: "a delete without a name is of many",
			method: "DELETE", url: "/api/v1/namespaces/n/configmaps",
			want: Request{Verb: "deletecollection", Version: "v1", Namespace: "n", Resource: "configmaps"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.url, nil)
			tt.want.Path, tt.want.Query = r.URL.Path, r.URL.Query()
			got := newRequest(r)
			assert.False(t, got.Time.IsZero())
			tt.want.Time = got.Time
			assert.Equal(t, tt.want, got, tt.reason)
		})
	}
}

func TestMatch(t *testing.T) {
	scale := Request{
		Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale",
		Namespace: "n", Name: "d", Path: "/apis/apps/v1/namespaces/n/deployments/d/scale",
	}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	tests := map[string]struct {
		reason  string
		match   Match
		request Request
		want    bool
	}{
		"zero":              {"the zero value is every request", Match{}, scale, true},
		"all fields":        {"every field agrees", Match{"update", deployments, "scale", "n", "d", "/apis/apps/", "", func(q Request) bool { return q.Name == "d" }}, scale, true},
		"verb":              {"the verb differs", Match{Verb: "get"}, scale, false},
		"subresource":       {"the subresource differs", Match{Resource: deployments, Subresource: "status"}, scale, false},
		"any subresource":   {"a resource is with its subresources", Match{Resource: deployments}, scale, true},
		"namespace":         {"the namespace differs", Match{Namespace: "m"}, scale, false},
		"name":              {"the name differs", Match{Name: "e"}, scale, false},
		"condition":         {"the condition does not hold", Match{Where: func(q Request) bool { return q.Name == "e" }}, scale, false},
		"parameter":         {"the query has no such parameter", Match{Parameter: "force"}, scale, false},
		"path":              {"the path begins otherwise", Match{PathPrefix: "/api/"}, scale, false},
		"version":           {"the version differs", Match{Resource: deployments.GroupResource().WithVersion("v2")}, scale, false},
		"any version":       {"no version is every version", Match{Resource: deployments.GroupResource().WithVersion("")}, scale, true},
		"core group":        {"a resource of the core group is not one of apps", Match{Resource: schema.GroupVersionResource{Resource: "deployments"}}, scale, false},
		"group":             {"a group is all of its resources", Match{Resource: schema.GroupVersionResource{Group: "apps"}}, scale, true},
		"other group":       {"another group is not", Match{Resource: schema.GroupVersionResource{Group: "batch"}}, scale, false},
		"discovery":         {"a group is its documents too", Match{Verb: Discovery, Resource: schema.GroupVersionResource{Group: "apps"}}, Request{Verb: Discovery, Group: "apps", Version: "v1"}, true},
		"discovery, no one": {"a document is of no resource", Match{Resource: deployments}, Request{Verb: Discovery, Group: "apps", Version: "v1"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.match.matches(tt.request), tt.reason)
		})
	}
}
