package mcp

import (
	"fmt"
	"time"

	"github.com/vidra-operator/vidra/pkg/insight"
)

type statusInput struct {
	Name      string `json:"name,omitempty" jsonschema:"the name of the VidraResource; all without it"`
	Namespace string `json:"namespace,omitempty" jsonschema:"only VidraResources with an object in this namespace"`
	Selector  string `json:"selector,omitempty" jsonschema:"only VidraResources with these labels, such as team=web; not with name"`
}

type treeInput struct {
	Name      string `json:"name" jsonschema:"the name of the VidraResource"`
	Namespace string `json:"namespace,omitempty" jsonschema:"only objects in this namespace"`
}

// objectInput names an object.
type objectInput struct {
	Kind      string `json:"kind" jsonschema:"the kind or resource of the object, with its group if it is not one of Kubernetes, such as deployment or certificate.cert-manager.io"`
	Namespace string `json:"namespace,omitempty" jsonschema:"the namespace of the object; none for kinds without one"`
	Name      string `json:"name" jsonschema:"the name of the object"`
}

func (in objectInput) target() insight.Target {
	return insight.Target{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name}
}

type blameInput struct {
	objectInput

	Foreign bool `json:"foreign,omitempty" jsonschema:"only the lines that no manifest has"`
}

type historyInput struct {
	VidraResource string `json:"vidraResource,omitempty" jsonschema:"the name of the VidraResource; not with kind and name"`
	Kind          string `json:"kind,omitempty" jsonschema:"the kind of the only object"`
	Namespace     string `json:"namespace,omitempty" jsonschema:"the namespace of the objects"`
	Name          string `json:"name,omitempty" jsonschema:"the name of the only object"`
	Since         string `json:"since,omitempty" jsonschema:"only edits of the last time, such as 24h"`
}

func (in historyInput) query(now time.Time) (q insight.HistoryQuery, err error) {
	q = insight.HistoryQuery{VidraResource: in.VidraResource, Namespace: in.Namespace}
	if q.Target, err = targetOf(in.Kind, in.Namespace, in.Name); err != nil {
		return q, err
	}
	q.Since, err = insight.SinceOf("since", in.Since, now)
	return q, err
}

type eventsInput struct {
	VidraResource string   `json:"vidraResource,omitempty" jsonschema:"only Events about this VidraResource or its objects"`
	Kind          string   `json:"kind,omitempty" jsonschema:"the kind of an object that the Events are about"`
	Namespace     string   `json:"namespace,omitempty" jsonschema:"the namespace of an object that the Events are about"`
	Name          string   `json:"name,omitempty" jsonschema:"the name of an object that the Events are about"`
	Reasons       []string `json:"reasons,omitempty" jsonschema:"only these reasons, such as DriftCorrected"`
	Type          string   `json:"type,omitempty" jsonschema:"only this type: Normal or Warning"`
	Since         string   `json:"since,omitempty" jsonschema:"only Events of the last time, such as 10m"`
}

func (in eventsInput) query(now time.Time) (q insight.EventQuery, err error) {
	q = insight.EventQuery{VidraResource: in.VidraResource, Namespace: in.Namespace, Reasons: in.Reasons, Type: in.Type}
	if q.Target, err = targetOf(in.Kind, in.Namespace, in.Name); err != nil {
		return q, err
	}
	q.Since, err = insight.SinceOf("since", in.Since, now)
	return q, err
}

// previewInput names a VidraResource, or has the text of a file.
type previewInput struct {
	Name      string `json:"name,omitempty" jsonschema:"the name of a VidraResource; without it, those in file, or a new one with the objects in file"`
	File      string `json:"file,omitempty" jsonschema:"YAML or JSON: VidraResources, or objects as the manifest of the VidraResource; without it, the VidraResource as it is in the cluster"`
	Namespace string `json:"namespace,omitempty" jsonschema:"the namespace of the objects of a new VidraResource that name none"`
}

func (in previewInput) query() insight.PreviewQuery {
	q := insight.PreviewQuery{VidraResource: in.Name, Namespace: in.Namespace}
	if in.File != "" {
		q.Files = []insight.File{{Name: "file", Text: in.File}}
	}
	return q
}

// targetOf returns the object that optional inputs name; nil for none.
func targetOf(kind, namespace, name string) (*insight.Target, error) {
	switch {
	case kind == "" && name == "":
		return nil, nil
	case kind == "" || name == "":
		return nil, fmt.Errorf("kind %q, name %q: an object has both", kind, name)
	}
	return &insight.Target{Kind: kind, Namespace: namespace, Name: name}, nil
}
